package node

import (
	"context"
	"net"
	"strings"
	"testing"

	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/store/sqlite"
)

// A load balancer sends requests as soon as the port is open. A start that is stopped must
// not count as failed.
func TestNoConnectionIsAcceptedBeforeTheStartHasFinished(t *testing.T) {
	t.Setenv("GOMAXPROCS", "2") // serve sets these otherwise, for the whole process
	t.Setenv("GOGC", "100")
	database, err := net.Listen("tcp", "127.0.0.1:0") // accepts and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer database.Close()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	public := free.Addr().String()
	free.Close()

	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- Serve(ctx, Source{Read: func() (config.Config, config.Sources, error) {
			return config.Load("", nil, map[string]string{
				"data": t.TempDir(), "store": "postgres://mintage@" + database.Addr().String() + "/mintage?sslmode=disable",
				"public-url": "https://auth.example.com", "listen": public, "management-listen": "127.0.0.1:0",
			})
		}})
	}()
	arrived := make(chan net.Conn, 1)
	go func() {
		if conn, err := database.Accept(); err == nil {
			arrived <- conn
		}
	}()
	select {
	case err := <-ended:
		t.Fatalf("the start has ended: %v", err)
	case conn := <-arrived: // the start now waits for the database
		defer conn.Close()
	}
	if conn, err := net.Dial("tcp", public); err == nil {
		conn.Close()
		t.Error("the public port accepts connections before the start has finished")
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("a start that was stopped: %v", err)
	}
}

// A start that cannot listen leaves no issuer in a new store: the next one, with another
// public_url, would be reported as a change of the issuer.
func TestAStartThatCannotListenKeepsNoIssuer(t *testing.T) {
	t.Setenv("GOMAXPROCS", "2") // serve sets these otherwise, for the whole process
	t.Setenv("GOGC", "100")
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	dir := t.TempDir()
	err = Serve(t.Context(), Source{Read: func() (config.Config, config.Sources, error) {
		return config.Load("", nil, map[string]string{
			"data": dir, "new-store": "true", "public-url": "https://auth.example.com", "listen": taken.Addr().String(), "management-listen": "127.0.0.1:0",
		})
	}})
	if err == nil || !strings.Contains(err.Error(), "address already in use") {
		t.Fatalf("Serve: %v", err)
	}
	st, err := sqlite.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	const next = "https://login.example.com/oauth2/api"
	if got, err := directory.RememberIssuer(t.Context(), st, "/api", next); err != nil || got != next {
		t.Errorf("the store keeps the issuer %q, %v", got, err)
	}
}
