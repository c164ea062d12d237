package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
)

// profiled are the loads whose profile is used to compile the server (PGO).
var profiled = []string{refresh, introspect, verify, service, authorized, code, idToken, refreshBound, verifyBound}

// recordProfile writes one CPU profile of the server under each of the loads, or of those
// that -only names, with equal weights. It measures nothing.
func recordProfile(ctx context.Context, opt options) (err error) {
	dir, err := os.MkdirTemp("", "mintage-bench-")
	if err != nil {
		return err
	}
	if len(opt.only) == 0 {
		opt.only = profiled
	}
	s := &suite{options: opt, dir: dir, report: newReport(opt), codeRate: map[string]float64{}, args: []string{"--management-pprof"}}
	defer func() {
		s.kill()
		err = errors.Join(err, os.RemoveAll(dir))
	}()
	if s.program, err = s.build(ctx, dir); err != nil {
		return err
	}
	if err := s.prepare(ctx); err != nil {
		return err
	}
	merge := []string{"tool", "pprof", "-proto", "-output", opt.profile}
	for _, name := range opt.only {
		note("profile of %s", name)
		file := filepath.Join(dir, name+".pb")
		if err := s.profile(ctx, name, file); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		merge = append(merge, file)
	}
	if out, err := exec.CommandContext(ctx, "go", merge...).CombinedOutput(); err != nil {
		return fmt.Errorf("go tool pprof: %w\n%s", err, out)
	}
	return nil
}

// profile makes one run, and records a profile during most of it.
func (s *suite) profile(ctx context.Context, name, file string) error {
	address, err := s.hostOf(name).management()
	if err != nil {
		return err
	}
	if _, err := s.run(ctx, name, s.duration/4); err != nil { // finds out how many codes are needed
		return err
	}
	recorded := make(chan error, 1)
	s.began = func() { go func() { recorded <- s.fetch(ctx, address, file) }() }
	defer func() { s.began = nil }()
	_, err = s.run(ctx, name, s.duration)
	return errors.Join(err, <-recorded)
}

// fetch requests a profile of the next seconds from a server.
func (s *suite) fetch(ctx context.Context, address, file string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", address, max(1, int(s.duration.Seconds())-1)), nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s: %s", r.URL.Path, answer.Status, text)
	}
	return os.WriteFile(file, text, 0o600)
}
