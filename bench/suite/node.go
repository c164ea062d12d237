package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/mintage/mintage/bench"
)

// peer runs the real program as another node of the first one, at target like, until it
// is ready. It passes on what every node shares: the key and the certificate.
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
	err = c.await(ctx, func() (bool, error) {
		text, err := os.ReadFile(c.log)
		u.Host = listening(text)
		return u.Host != "", err
	})
	if err != nil {
		return nil, err
	}
	c.target = like
	c.target.Endpoint = u.String()
	return c, nil
}

// listening returns the address in the log line of a serving node, or "".
func listening(log []byte) string {
	for line := range bytes.Lines(log) {
		var record struct{ Msg, Listen string }
		if json.Unmarshal(line, &record) == nil && record.Msg == "serving" {
			return record.Listen
		}
	}
	return ""
}
