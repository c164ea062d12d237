package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/mintage/mintage/internal/bench"
)

// peer runs the real program as another node of the first one, whose target is
// given, until it is ready. It needs what every node shares: the key, and the
// certificate.
func peer(ctx context.Context, program, dir string, first *dataset, like bench.Target, args ...string) (*child, error) {
	u, err := url.Parse(like.Endpoint)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	c, err := start(exec.Command(program, append([]string{"serve", "--data", dir, "--listen", "127.0.0.1:0", "--management-listen", "127.0.0.1:0",
		"--public-url", "https://" + u.Host, "--kek-file", filepath.Join(first.dir, "kek"),
		"--tls-cert", filepath.Join(first.dir, "dev-cert.pem"), "--tls-key", filepath.Join(first.dir, "dev-key.pem")}, args...)...),
		filepath.Join(dir, "serve.log"))
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(30 * time.Second); ; {
		text, err := os.ReadFile(c.log)
		if err != nil {
			c.kill()
			return nil, err
		}
		if address := listening(text); address != "" {
			u.Host = address
			c.target = like
			c.target.Endpoint = u.String()
			return c, nil
		}
		select {
		case <-ctx.Done():
			c.kill()
			return nil, ctx.Err()
		case <-c.done:
			return nil, c.failure("ended before it was ready")
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			c.kill()
			return nil, c.failure("is not ready after 30 seconds")
		}
	}
}

// listening is the address that a server's log names when it serves, or "".
func listening(log []byte) string {
	for line := range bytes.Lines(log) {
		var record struct{ Msg, Listen string }
		if json.Unmarshal(line, &record) == nil && record.Msg == "serving" {
			return record.Listen
		}
	}
	return ""
}
