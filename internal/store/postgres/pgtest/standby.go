package pgtest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// StartStandby makes a copy of a running primary and starts it as a standby that
// follows the primary through an address, which may be that of a Proxy. From then
// on, the primary acknowledges a commit only after the standby has it on its disk.
func StartStandby(primary *Server, address string) (*Server, error) {
	host, port, found := strings.Cut(address, ":")
	if !found {
		return nil, fmt.Errorf("address %q has no port", address)
	}
	s, err := start(primary.settings, func(s *Server) error {
		out, err := s.command("pg_basebackup", "-D", s.data(), "-h", host, "-p", port, "-U", "mintage", "-R", "-X", "stream", "-c", "fast", "--no-sync").CombinedOutput()
		if err != nil {
			return fmt.Errorf("pg_basebackup: %w\n%s", err, out)
		}
		// Once the standby is promoted, it must not wait for a standby of its own.
		return s.set("synchronous_standby_names", "")
	})
	if err != nil {
		return nil, err
	}
	if err := synchronize(primary); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// set appends a setting to those that ALTER SYSTEM has made.
func (s *Server) set(name, value string) error {
	f, err := os.OpenFile(filepath.Join(s.data(), "postgresql.auto.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "%s = '%s'\n", name, value)
	return errors.Join(err, f.Close())
}

// synchronize makes the primary wait for its standby at each commit (synchronous
// replication), and returns once it does.
func synchronize(primary *Server) error {
	for _, text := range []string{`ALTER SYSTEM SET synchronous_standby_names = '*'`, `SELECT pg_reload_conf()`} {
		if _, err := primary.query("postgres", text); err != nil {
			return err
		}
	}
	for end := time.Now().Add(serverTimeout); ; time.Sleep(20 * time.Millisecond) {
		state, err := primary.query("postgres", `SELECT sync_state FROM pg_stat_replication WHERE state = 'streaming'`)
		if err != nil {
			return err
		}
		if state == "sync" {
			break
		}
		if time.Now().After(end) {
			return fmt.Errorf("the standby's state is %q, not sync\n%s", state, primary.Log())
		}
	}
	// The checkpointer publishes the setting to the other processes. Once it has
	// made a checkpoint that was requested later, it has read the setting.
	_, err := primary.query("postgres", `CHECKPOINT`)
	return err
}

// Promote makes a standby a primary, and returns when it is one.
func (s *Server) Promote() error {
	done, err := s.query("postgres", `SELECT pg_promote(true, 60)`)
	if err == nil && done != "t" {
		err = fmt.Errorf("the standby was not promoted\n%s", s.Log())
	}
	return err
}

// Address returns the address at which the server listens.
func (s *Server) Address() string { return fmt.Sprintf("127.0.0.1:%d", s.port) }
