package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/mintage/mintage/bench"
	"github.com/mintage/mintage/internal/store/sqlite"
)

// A child is a server process that the suite has started.
type child struct {
	cmd    *exec.Cmd
	log    string // the file with its standard error
	done   chan struct{}
	target bench.Target
}

// start runs a command whose standard error goes to a file. The command is killed when
// the suite dies, and does not receive the terminal's Ctrl-C: the suite stops it.
func start(cmd *exec.Cmd, log string) (*child, error) {
	f, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	cmd.Stderr = f
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &child{cmd: cmd, log: log, done: make(chan struct{})}
	go func() {
		cmd.Wait()
		close(c.done)
	}()
	return c, nil
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// kill kills the process, unless it has ended.
func (c *child) kill() {
	c.cmd.Process.Kill()
	<-c.done
}

// stop stops the process as an operator would, so that it closes its store.
func (c *child) stop() error {
	c.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-c.done:
	case <-time.After(20 * time.Second):
		c.kill()
		return fmt.Errorf("process %d did not stop within 20 seconds", c.pid())
	}
	if !c.cmd.ProcessState.Success() {
		return c.failure("ended badly: " + c.cmd.ProcessState.String())
	}
	return nil
}

func (c *child) failure(what string) error {
	text, _ := os.ReadFile(c.log)
	return fmt.Errorf("%s %s\n%s", c.cmd.Args[0], what, text[max(0, len(text)-2000):])
}

// await waits until a server is ready, and kills it if that fails.
func (c *child) await(ctx context.Context, ready func() (bool, error)) error {
	for deadline := time.Now().Add(30 * time.Second); ; {
		done, err := ready()
		if err == nil && done {
			return nil
		}
		if err != nil {
			c.kill()
			return err
		}
		select {
		case <-ctx.Done():
			c.kill()
			return ctx.Err()
		case <-c.done:
			return c.failure("ended before it was ready")
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			c.kill()
			return c.failure("is not ready after 30 seconds")
		}
	}
}

// serve runs the real program on a dataset and waits until it is ready.
func serve(ctx context.Context, program string, d *dataset, args ...string) (*child, error) {
	file := filepath.Join(d.dir, "dev.json")
	c, err := start(exec.Command(program, append([]string{"serve", "--dev", "--data", d.dir, "--listen", "127.0.0.1:0",
		"--management-listen", "127.0.0.1:0", "--code-lifetime", "10m"}, args...)...), filepath.Join(d.dir, "serve.log"))
	if err != nil {
		return nil, err
	}
	var dev struct {
		TokenEndpoint string `json:"token_endpoint"`
		CAFile        string `json:"ca_file"`
	}
	err = c.await(ctx, func() (bool, error) {
		// The server writes the file atomically, when it accepts connections.
		text, err := os.ReadFile(file)
		if err != nil {
			return false, nil
		}
		return true, json.Unmarshal(text, &dev)
	})
	if err != nil {
		return nil, err
	}
	pool, err := readPool(dev.CAFile)
	if err != nil {
		c.kill()
		return nil, err
	}
	c.target = bench.Target{
		Endpoint: dev.TokenEndpoint, ClientID: d.clientID, ClientSecret: d.secret, RedirectURI: callback,
		TLS: &tls.Config{RootCAs: pool},
	}
	return c, nil
}

// serveBare runs the yardstick with another server's certificate. It responds to every
// request with body. environ adds to the environment.
func serveBare(flag string, like *child, d *dataset, body []byte, environ ...string) (*child, error) {
	file := filepath.Join(d.dir, "bare-body.json")
	if err := os.WriteFile(file, body, 0o600); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, flag, filepath.Join(d.dir, "dev-cert.pem"), filepath.Join(d.dir, "dev-key.pem"), file)
	cmd.Env = append(os.Environ(), environ...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c, err := start(cmd, filepath.Join(d.dir, "bare.log"))
	if err != nil {
		return nil, err
	}
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		c.kill()
		return nil, c.failure("ended before it was ready")
	}
	c.target = like.target
	_, path, _ := strings.Cut(strings.TrimPrefix(like.target.Endpoint, "https://"), "/")
	c.target.Endpoint = "https://" + strings.TrimSpace(addr) + "/" + path
	c.target.FixedBody = len(body)
	return c, nil
}

func readPool(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("%s holds no certificate", file)
	}
	return pool, nil
}

// commits returns the number of write transactions of a running server's store. The
// WAL-index begins with a version, padding, and a counter of transactions
// (https://www.sqlite.org/walformat.html#the_wal_index_header).
func commits(dir string) (uint32, error) {
	f, err := os.Open(filepath.Join(dir, sqlite.FileName+"-shm"))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var head [12]byte
	if _, err := io.ReadFull(f, head[:]); err != nil {
		return 0, err
	}
	return binary.NativeEndian.Uint32(head[8:]), nil
}
