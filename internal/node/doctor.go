package node

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/doctor"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/secretfile"
	"github.com/mintage/mintage/internal/server"
	serveradmin "github.com/mintage/mintage/internal/server/admin"
	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/postgres"
	"github.com/mintage/mintage/internal/store/sqlite"
)

// checkupAfter delays the first checkup: other work is more urgent after a start.
// checkupEvery is the interval of checkups while there is a console, which shows them.
const (
	checkupAfter = 5 * time.Minute
	checkupEvery = time.Hour
	checkupTime  = 5 * time.Minute
)

// use sets the configuration that the next checkup examines.
func (c *checkups) use(cfg config.Config) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cfg = cfg
}

// checkup returns the last checkup. If start is set, it starts another one, unless one is
// running.
func (n *node) checkup(start bool) adminapi.Checkup {
	c := &n.checkups
	c.mu.Lock()
	defer c.mu.Unlock()
	if start && !c.last.Running && c.ctx != nil && c.ctx.Err() == nil {
		c.last.Running = true
		cfg := c.cfg
		c.running.Go(func() {
			ctx, cancel := context.WithTimeout(c.ctx, checkupTime)
			defer cancel()
			next := n.examine(ctx, cfg)
			c.mu.Lock()
			defer c.mu.Unlock()
			c.last = next
		})
	}
	return c.last
}

// checkUp starts a checkup every checkupEvery while there is a console, until ctx ends.
func (n *node) checkUp(ctx context.Context, running *sync.WaitGroup) {
	n.checkups.mu.Lock()
	n.checkups.ctx, n.checkups.running = ctx, running
	n.checkups.mu.Unlock()
	for pause := checkupAfter; directory.Pause(ctx, pause); pause = checkupEvery {
		n.checkups.mu.Lock()
		console := n.checkups.cfg.Console.Listen != ""
		n.checkups.mu.Unlock()
		n.checkup(console)
	}
}

// examine runs doctor's checks, without those that read the whole store.
func (n *node) examine(ctx context.Context, cfg config.Config) adminapi.Checkup {
	p := doctor.Deployment{Dev: n.dev, Beside: true}
	DescribeDeployment(cfg, &p)
	if n.dev {
		p.CAFile = deployment.DevCAFile(cfg)
	}
	if p.StoreErr = ReadStore(ctx, n.store, &p); p.StoreErr == nil {
		NameEngine(cfg, n.engine, &p)
	}
	// The checks only read: the role of an auditor is enough.
	actor := admin.Actor{Via: admin.ViaMachine, Name: "doctor", Role: admin.RoleAuditor}
	p.Admin = func(ctx context.Context, method, path string, out any) error {
		r, err := http.NewRequestWithContext(serveradmin.WithActor(ctx, actor), method, "http://server"+path, nil)
		if err != nil {
			return err
		}
		resp, err := server.InProcess{Handler: &n.admin}.RoundTrip(r)
		if err != nil {
			return err
		}
		if resp.StatusCode >= 300 {
			return fmt.Errorf("status %d", resp.StatusCode)
		}
		return json.NewDecoder(resp.Body).Decode(out)
	}
	r := doctor.Conclude(p.Examine(ctx, false, func(doctor.Finding) {}))
	now := time.Now().UTC()
	return adminapi.Checkup{At: &now, Verdict: r.Verdict, Findings: append([]adminapi.Finding{}, r.Findings...)}
}

// DescribeDeployment sets the fields of p that follow from the configuration, but not the
// store, the admin API and the fields that flags set.
func DescribeDeployment(cfg config.Config, p *doctor.Deployment) {
	p.Config, p.Realm, p.Now, p.Schedule = cfg, cfg.Realm, grant.At(time.Now()), deployment.KeySchedule(cfg)
	if !p.Beside {
		p.Server = secretfile.UserOf(cfg.Data).Other()
	}
	p.StoreFile = filepath.Join(cfg.Data, sqlite.FileName)
	p.KEKFile, _ = deployment.KEKPath(cfg)
	p.KEK, p.KEKErr = deployment.ReadKEK(cfg)
	info, err := deployment.ReadDevFile(cfg)
	p.Demo = doctor.Demo{File: deployment.DevFile(cfg), ClientID: info.ClientID, Err: err}
}

// ReadStore sets the store of p and its Changes, with the last uses of secrets.
func ReadStore(ctx context.Context, st store.Store, p *doctor.Deployment) error {
	changes, err := st.Changes(ctx, 0)
	for i := range changes.Clients {
		if c := &changes.Clients[i]; err == nil && c.State != store.ClientDeleted {
			*c, err = (&store.RealmStore{Store: st, Name: c.Realm}).Client(ctx, c.ID) // with the last use of its secrets
		}
	}
	if err == nil {
		p.Store, p.Changes = st, changes
	}
	return err
}

// NameEngine sets the functions of the storage engine that the checks call.
func NameEngine(cfg config.Config, engine store.Store, p *doctor.Deployment) {
	switch st := engine.(type) {
	case *sqlite.Store:
		p.Embedded = &doctor.Embedded{TryWrite: st.TryWrite, Examine: st.Examine, QuickCheck: st.QuickCheck}
	case *postgres.Store:
		p.Database = &doctor.Database{TryWrite: st.TryWrite, Examine: st.Examine, Nodes: st.Nodes}
		if hosts, err := postgres.Unverified(deployment.Database(cfg)); err == nil {
			p.Database.Unverified = hosts
		}
	}
}
