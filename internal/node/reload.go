package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/mintage/mintage/internal/audit"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/deployment"
)

// On SIGHUP, a node reads and checks the whole configuration again. If
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

// onHangup catches SIGHUP from now on, which would otherwise end the program. If the program
// was started with nohup, which ignores the signal, closing the terminal does not stop it.
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
		notifyOrLog(n.log, stateReloading, "reading the configuration again")
		cfg, from, err := load()
		if err == nil {
			err = from.Explain(n.reload(cfg, from))
		}
		if err != nil {
			n.log.Error("the configuration cannot be used; nothing has changed", "faults", strings.Split(err.Error(), "\n"))
		}
		if err := n.directory.CheckKEK(ctx); err != nil {
			n.log.Error("the server runs with the key-encryption key of its start, and would not start with the present file", "error", err)
		}
		notifyOrLog(n.log, stateReady, "serving "+n.cfg.IssuerID())
	}
}

// reload applies the reloadable settings. On an error, nothing has changed.
func (n *node) reload(wanted config.Config, from config.Sources) error {
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
	n.runWith(cfg, from, kept, n.inForce.Load().load)
	if len(kept) > 0 {
		n.log.Warn("settings that take a restart to change have kept their values", "settings", kept)
	}
	for _, d := range cfg.Departures() {
		if !slices.Contains(before.Departures(), d) {
			n.log.Warn("departure from the specification", "what", d)
		}
	}
	n.log.Info("configuration reloaded", "changed", changed)
	n.auditLog.Record(audit.Event{Name: audit.ConfigReloaded, Actor: "server", Detail: "changed: " + cmp.Or(strings.Join(changed, ", "), "nothing")})
	return nil
}

// runWith stores the configuration in force and its sources. Settings whose value a reload
// has kept also keep their source.
func (n *node) runWith(cfg config.Config, from config.Sources, kept []string, load func() (config.Config, config.Sources, error)) {
	if before := n.inForce.Load(); before != nil {
		for _, name := range kept {
			if s, given := before.from[name]; given {
				from[name] = s
			} else {
				delete(from, name)
			}
		}
	}
	n.inForce.Store(&inForce{cfg, from, load})
}

// States of the service for systemd, see sd_notify(3). There is no watchdog: a timer
// would only prove that timers work, and a restart does not repair a store; /readyz
// reports it.
const (
	stateReady     = "READY=1"
	stateReloading = "RELOADING=1"
	stateStopping  = "STOPPING=1"
)

// notifyOrLog calls notify, and logs an error.
func notifyOrLog(log *slog.Logger, state, status string) {
	if err := notify(state, status); err != nil {
		log.Warn("cannot notify the service manager", "state", state, "error", err)
	}
}

// notify sends a state and a status line to the service manager, if there is one.
func notify(state, status string) error {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return nil
	}
	if !strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "@") {
		return deployment.Hint(errors.New("NOTIFY_SOCKET is neither a path nor an abstract socket"), "only the service manager sets it: unset it")
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	_, err = c.Write([]byte(state + "\nSTATUS=" + strings.ReplaceAll(status, "\n", " ")))
	return err
}
