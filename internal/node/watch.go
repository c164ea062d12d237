package node

import (
	"time"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/explain"
	"github.com/mintage/mintage/internal/store"
)

// Endpoints as the log calls them, and the stages of a first login.
const (
	authorizing = "authorization"
	asking      = "device authorization"
	getting     = "token request"
)

// stages are what a client does first, by how it gets its tokens.
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

// watchClient returns what a client has sent to this node since somebody began to look; false if
// too many others are watched.
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
