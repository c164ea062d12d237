package node

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/explain"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/server/token"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/traffic"
)

// explain explains a text for requests of the realm under cfg, with the audit log's records
// of the listed realms, or of all if realms is nil.
func (n *realm) explain(ctx context.Context, cfg config.Config, iss *issuer.Issuer, tokens *token.Endpoints, in adminapi.ExplainRequest, realms []string) (*explain.Explained, error) {
	x := explain.Explainer{Config: cfg, Realm: n.name, Store: n.store, Directory: n.directory, Now: time.Now, MaxSkew: cfg.Skew(), Issuer: iss, ResponseTo: tokens.ErrorAnswer, Audited: realms, Recent: in.Recent}
	for _, r := range n.realms {
		x.Realms = append(x.Realms, r.name)
	}
	asked := explain.Parse(in.Text)
	asked.Subject = in.Subject
	return x.Explain(ctx, asked, nil)
}

// settings returns the settings in force, and those that a reload or a restart would change
// because the configuration has changed since.
func (n *node) settings() adminapi.Settings {
	now := n.inForce.Load()
	v := adminapi.Settings{Settings: []adminapi.SettingValue{}, OnReload: []string{}, OnRestart: []string{}, Faults: []string{}}
	for _, s := range config.List(now.cfg, now.from) {
		v.Settings = append(v.Settings, adminapi.SettingValue{Name: s.Name, Group: s.Group, Value: s.Value, Source: s.Source, Given: s.Given, Reloads: s.Reloads})
	}
	wanted, _, err := now.load()
	if err != nil {
		v.Faults = append(v.Faults, strings.Split(err.Error(), "\n")...)
		return v
	}
	_, changed, kept := now.cfg.Reloaded(wanted)
	v.OnReload, v.OnRestart = append(v.OnReload, changed...), append(v.OnRestart, kept...)
	return v
}

// record counts the responses of each minute until ctx ends, and stores the counts every
// traffic.Step.
func (n *node) record(ctx context.Context) {
	every := time.NewTicker(time.Minute)
	defer every.Stop()
	written := time.Now()
	for {
		select {
		case <-ctx.Done():
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTime)
			defer cancel()
			n.writeTraffic(ctx)
			return
		case now := <-every.C:
			if n.traffic.Tick(); now.Sub(written) >= traffic.Step {
				n.writeTraffic(ctx)
				written = now
			}
		}
	}
}

func (n *node) writeTraffic(ctx context.Context) {
	if err := n.traffic.Write(ctx); err != nil && !n.outage.Combines(err, time.Now()) {
		n.log.Warn("cannot write the counts of requests", "error", err)
	}
}

// trafficOf returns the counts of all nodes' responses in the form of the admin API.
func (n *node) trafficOf(ctx context.Context, of, step time.Duration) (adminapi.Traffic, error) {
	s, err := n.traffic.Sum(ctx, of, step)
	t := adminapi.Traffic{From: s.From, Step: int(s.Step / time.Second), Series: []adminapi.Series{}}
	for _, name := range s.Names {
		v := adminapi.Series{Name: name, Error: slices.Contains(traffic.Errors, name), Counts: s.Of[name]}
		for _, c := range v.Counts {
			v.Total += c
		}
		t.Series = append(t.Series, v)
	}
	return t, err
}

// The log's names of the endpoints of a client's first login.
const (
	authorizing = "authorization"
	asking      = "device authorization"
	getting     = "token request"
)

// stages returns the steps of a client's first login, by its grant types.
func stages(c store.Client) (names []string) {
	if c.MayUse(store.GrantAuthorizationCode) {
		names = append(names, "authorize")
	} else if c.MayUse(store.GrantDeviceCode) {
		names = append(names, "device")
	}
	names = append(names, "token")
	if c.MayUse(store.GrantRefreshToken) {
		names = append(names, "refresh")
	}
	return names
}

// watchClient returns the requests of a client to this node since the watch began; false if
// too many clients are watched.
func (n *realm) watchClient(c store.Client) (adminapi.Watch, bool) {
	seen, ok := n.watches.Look(n.name, c.ID, time.Now())
	v, done := adminapi.Watch{Requests: []adminapi.WatchedRequest{}}, map[string]bool{}
	for _, s := range seen {
		q := adminapi.WatchedRequest{At: s.At.UTC(), RequestID: s.RequestID, Endpoint: s.Endpoint, GrantType: s.GrantType, Answered: s.Err == nil, Repeated: s.Repeated, Unknown: s.Unknown}
		if s.Err != nil {
			q.Why, q.Next = explain.Remedy(s.Err)
		}
		v.Requests = append(v.Requests, q)
		switch {
		case s.Err != nil || s.Unknown:
		case s.Endpoint == authorizing:
			done["authorize"] = true
		case s.Endpoint == asking:
			done["device"] = true
		case s.Endpoint == getting && s.GrantType == store.GrantRefreshToken:
			done["refresh"] = true
		case s.Endpoint == getting:
			done["token"] = true
		}
	}
	v.Finished = true
	for _, name := range stages(c) {
		v.Stages = append(v.Stages, adminapi.Stage{Name: name, Done: done[name]})
		v.Finished = v.Finished && done[name]
	}
	return v, ok
}
