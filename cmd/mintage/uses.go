package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/issuer"
	"github.com/mintage/mintage/internal/store"
)

const (
	// settleTime bounds the wait for what servers have not written yet. A node
	// that does not reach the store for so long answers no request.
	settleTime = 6 * time.Second
	// lately is when a node may still be running whose last heartbeat is that old,
	// by another machine's clock.
	lately = 30 * time.Second
)

// clientInUse is client, with the last uses of its secrets that the running
// servers hold in memory. They write a use that matters for the verdict at their
// next poll; only a secret that seems safe to revoke is worth the wait.
func (o *office) clientInUse(cmd *cobra.Command, id string) (store.Client, error) {
	c, err := o.client(cmd, id)
	if err != nil || !slices.ContainsFunc(c.Secrets, func(s store.Secret) bool { return issuer.SecretVerdict(c, s, o.now) == "" }) {
		return c, err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), settleTime)
	defer cancel()
	reached := pollServer(ctx, o.cfg)
	switch {
	case o.nodes != nil:
		o.awaitNodes(ctx)
	case !reached && serverRuns(o.cfg.Data):
		pause(ctx, 2*issuer.PollInterval)
	}
	o.now = grant.At(time.Now())
	return o.client(cmd, id)
}

// awaitNodes waits until every node that runs has sent two heartbeats from now on:
// it writes uses before each of them, and the first may have been under way.
func (o *office) awaitNodes(ctx context.Context) {
	last, beats := map[store.NodeID]grant.Instant{}, map[store.NodeID]int{}
	for first := true; ; first = false {
		nodes, err := o.nodes(ctx)
		if err != nil {
			return // the store's own fault: the next read tells
		}
		waiting := false
		for _, n := range nodes {
			switch at, known := last[n.ID]; {
			case first && o.now.Since(n.Clock).Abs() > lately: // it has ended
			case first:
				waiting = true
				last[n.ID] = n.Clock
			case known && n.Clock != at:
				last[n.ID] = n.Clock
				beats[n.ID]++
				fallthrough
			case known:
				waiting = waiting || beats[n.ID] < 2
			}
		}
		if !waiting || !pause(ctx, issuer.PollInterval/10) {
			return
		}
	}
}

// pause waits, and reports whether ctx goes on.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// serverRuns reports whether a server seems to run on a data directory: its lock
// file names a process that there is.
func serverRuns(dir string) bool {
	text, err := os.ReadFile(filepath.Join(dir, "serve.lock"))
	if err != nil {
		return false
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	return err == nil && pid > 0 && syscall.Kill(pid, 0) != syscall.ESRCH
}
