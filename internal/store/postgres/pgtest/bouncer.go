package pgtest

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/testkit/freeport"
)

// bouncer is the path of the program on Debian.
const bouncer = "/usr/sbin/pgbouncer"

// A Bouncer is a running pgbouncer in transaction mode: each transaction of a client
// may run on another connection to the server. Debian's version, 1.18, does not
// support prepared statements in this mode.
type Bouncer struct {
	// Isolation is the level of the accounts that Schema makes: "" is read committed.
	Isolation string

	server  *Server
	dir     string
	port    int
	process *exec.Cmd
	ended   chan error
}

// StartBouncer starts a pgbouncer that leads to every database of a server, with
// further settings such as "default_pool_size=5". Stop ends it.
func StartBouncer(s *Server, settings ...string) (_ *Bouncer, err error) {
	if _, err := os.Stat(bouncer); err != nil {
		return nil, fmt.Errorf("pgbouncer is needed, and %s is not there: run scripts/tools, or apt-get install pgbouncer", bouncer)
	}
	b := &Bouncer{server: s}
	if b.dir, err = os.MkdirTemp("", "mintage-pgbouncer-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(b.dir))
		}
	}()
	if b.port, _, err = freeport.Reserve("127.0.0.1"); err != nil {
		return nil, err
	}
	files := map[string]string{
		"accounts": `"mintage" ""` + "\n",
		"ini": fmt.Sprintf("[databases]\n* = host=127.0.0.1 port=%d\n[pgbouncer]\n", s.port) + strings.Join(slices.Concat([]string{
			"listen_addr=127.0.0.1", fmt.Sprintf("listen_port=%d", b.port), "unix_socket_dir=", "pool_mode=transaction", "server_login_retry=1",
			// Accounts that a test makes are looked up in the server.
			"auth_type=trust", "auth_user=mintage", "auth_file=" + filepath.Join(b.dir, "accounts"),
			// Fewer connections than the server allows: each account gets a pool of its own.
			"max_client_conn=1000", "default_pool_size=20", "max_db_connections=100", "server_idle_timeout=2",
		}, settings), "\n") + "\n",
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(b.dir, name), []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	if err := os.Chmod(b.dir, 0o755); err != nil { // pgbouncer runs under another account
		return nil, err
	}
	log, err := os.Create(filepath.Join(b.dir, "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	b.process = exec.Command(bouncer, filepath.Join(b.dir, "ini"))
	b.process.Dir = b.dir
	b.process.Stdout, b.process.Stderr = log, log
	// pgbouncer refuses to run as root. The kernel kills it when this process ends.
	b.process.SysProcAttr = &syscall.SysProcAttr{Credential: s.account, Pdeathsig: syscall.SIGKILL}
	if err := b.process.Start(); err != nil {
		return nil, err
	}
	b.ended = make(chan error, 1)
	go func() { b.ended <- b.process.Wait() }()
	for end := time.Now().Add(serverTimeout); ; time.Sleep(10 * time.Millisecond) {
		if conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", b.port)); err == nil {
			return b, conn.Close()
		}
		select {
		case err := <-b.ended:
			return nil, fmt.Errorf("pgbouncer has ended: %v\n%s", err, b.Log())
		default:
		}
		if time.Now().After(end) {
			return nil, errors.Join(fmt.Errorf("pgbouncer does not answer\n%s", b.Log()), b.Stop())
		}
	}
}

// Stop kills pgbouncer, which ends all connections, and removes its directory.
func (b *Bouncer) Stop() error {
	if err := b.process.Process.Kill(); err != nil {
		return err
	}
	<-b.ended
	return os.RemoveAll(b.dir)
}

// Log returns what pgbouncer has logged.
func (b *Bouncer) Log() string {
	text, err := os.ReadFile(filepath.Join(b.dir, "log"))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// URL names a database of the server, by way of the pooler.
func (b *Bouncer) URL(database string, parameters ...string) string {
	return b.url("mintage", database, parameters)
}

// Schema makes an empty schema, which is much cheaper than a database, and
// returns the URL of a store in it. A pooler accepts no search_path from a client:
// PostgreSQL finds the schema because it has the name of the account.
func (b *Bouncer) Schema(t testing.TB, parameters ...string) (url string) {
	t.Helper()
	name := freshName()
	b.server.makeSchema(t, `CREATE ROLE `+name+` LOGIN; CREATE SCHEMA AUTHORIZATION `+name+`; ALTER ROLE `+name+` SET default_transaction_isolation = '`+cmp.Or(b.Isolation, "read committed")+`'`)
	return b.url(name, "postgres", parameters)
}

func (b *Bouncer) url(user, database string, parameters []string) string {
	return fmt.Sprintf("postgres://%s@127.0.0.1:%d/%s?%s", user, b.port, database, strings.Join(slices.Concat([]string{"sslmode=disable"}, parameters), "&"))
}
