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

// This file is SIGHUP: the configuration is read again and checked as a whole.
// If it is good, what can change is in force from the next request on; if not,
// nothing changes.

// A Source is where the configuration is read, at the start and again.
type Source struct {
	Read func() (config.Config, config.Sources, error)
	Dev  bool
	// version is what the server calls itself.
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

// hangups are the signals to read the configuration again.
type hangups struct {
	signals  chan os.Signal
	terminal bool // the end of the terminal would come as such a signal, too
}

// onHangup takes SIGHUP from now on: without it, the signal ends the program.
// Under nohup, the end of the terminal does not concern it.
func onHangup() hangups {
	h := hangups{make(chan os.Signal, 1), hasTerminal() && !signal.Ignored(syscall.SIGHUP)}
	signal.Notify(h.signals, syscall.SIGHUP)
	return h
}

// hasTerminal reports whether a terminal controls this process: none any more
// once its window is closed.
func hasTerminal() bool {
	f, err := os.OpenFile("/dev/tty", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return false
	}
	f.Close()
	return true
}

// reloadOn reads the configuration again at every signal, until ctx ends. It
// calls stop if it is the terminal that has hung up.
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

// reload takes over what can change. On an error, nothing has changed.
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
	n.trail.Record(audit.Event{Name: audit.ConfigReloaded, Actor: "server", Detail: "changed: " + strings.Join(changed, ", ")})
	return nil
}
