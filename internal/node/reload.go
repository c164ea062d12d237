package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/config"
)

// This file handles SIGHUP: it reads and checks the whole configuration again. If
// it is valid, reloadable settings apply from the next request on; otherwise nothing
// changes.

// A Source reads the configuration, at the start and at each reload.
type Source struct {
	Read func() (config.Config, config.Sources, error)
	Dev  bool
	// Version is the version of the program, for logs and metrics.
	Version string
}

// load reads and checks the configuration of a server that listens on addr.
func (s Source) load(addr net.Addr) (config.Config, config.Sources, error) {
	cfg, from, err := s.Read()
	if err == nil && s.Dev {
		err = prepareDev(&cfg, addr)
	}
	if err == nil {
		err = from.Explain(cfg.Check())
	}
	return cfg, from, err
}

// hangups receives the signals to reload.
type hangups struct {
	signals  chan os.Signal
	terminal bool // closing the terminal also sends the signal
}

// onHangup catches SIGHUP from now on, which would otherwise end the program. Under
// nohup, the program outlives its terminal.
func onHangup() hangups {
	h := hangups{make(chan os.Signal, 1), hasTerminal() && !signal.Ignored(syscall.SIGHUP)}
	signal.Notify(h.signals, syscall.SIGHUP)
	return h
}

// hasTerminal reports whether the process has a controlling terminal. It has none
// after the terminal's window was closed.
func hasTerminal() bool {
	f, err := os.OpenFile("/dev/tty", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return false
	}
	f.Close()
	return true
}

// reloadOn reloads at every signal, until ctx ends. It calls stop if the signal
// means that the terminal was closed.
func (n *node) reloadOn(ctx context.Context, h hangups, load func() (config.Config, config.Sources, error), stop func()) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.signals:
		}
		if h.terminal && !hasTerminal() {
			n.log.Info("the terminal is closed")
			stop()
			return
		}
		tell(n.log, stateReloading, "reading the configuration again")
		cfg, from, err := load()
		if err == nil {
			err = from.Explain(n.reload(cfg))
		}
		if err != nil {
			n.log.Error("the configuration cannot be used; nothing has changed", "faults", strings.Split(err.Error(), "\n"))
		}
		tell(n.log, stateReady, "serving "+n.cfg.IssuerID())
	}
}

// reload applies the reloadable settings. On an error, nothing has changed.
func (n *node) reload(wanted config.Config) error {
	before := n.cfg
	cfg, changed, kept := before.Reloaded(wanted)
	if err := cfg.Check(); err != nil {
		return errors.Join(fmt.Errorf("without a restart, %s keep their values, and with them this cannot be used:", strings.Join(kept, ", ")), err)
	}
	next, err := n.answer(cfg)
	if err != nil {
		return err
	}
	n.use(cfg, next)
	if len(kept) > 0 {
		n.log.Warn("settings that take a restart to change have kept their values", "settings", kept)
	}
	for _, d := range cfg.Departures() {
		if !slices.Contains(before.Departures(), d) {
			n.log.Warn("departure from the specification", "what", d)
		}
	}
	n.log.Info("configuration reloaded", "changed", changed)
	n.auditLog.Record(audit.Event{Name: audit.ConfigReloaded, Actor: "server", Detail: "changed: " + strings.Join(changed, ", ")})
	return nil
}
