// Package pgtest starts PostgreSQL servers for tests: Debian's build, each on a port
// and in a directory of its own.
package pgtest

import (
	"bytes"
	"context"
	cryptorand "crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/mintage/mintage/internal/testkit/freeport"
)

// programs is the directory of the server's programs on Debian.
const programs = "/usr/lib/postgresql/15/bin/"

// serverTimeout is how long a server may take to start or to stop on a busy machine.
const serverTimeout = 60 * time.Second

// A Server is a running PostgreSQL.
type Server struct {
	dir      string
	port     int
	account  *syscall.Credential // nil: our own
	settings []string
	args     []string
	process  *exec.Cmd
	ended    chan error
	killed   bool

	mu    sync.Mutex
	makes *pgconn.PgConn // makes schemas; nil: not connected
}

// Start makes a new cluster and starts a server on it, with further settings
// such as "max_connections=20". Stop ends it and removes everything.
func Start(settings ...string) (*Server, error) {
	return start(settings, func(s *Server) error {
		// --no-sync: the files need not survive a power failure before the server runs.
		out, err := s.command("initdb", "-D", s.data(), "-U", "mintage", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync").CombinedOutput()
		if err != nil {
			return fmt.Errorf("initdb: %w\n%s", err, out)
		}
		return nil
	})
}

// start calls fill to make the data directory, and starts a server on it.
func start(settings []string, fill func(*Server) error) (_ *Server, err error) {
	if _, err := os.Stat(programs + "initdb"); err != nil {
		return nil, fmt.Errorf("PostgreSQL 15 is needed, and %sinitdb is not there: run scripts/tools, or apt-get install postgresql-15", programs)
	}
	s := &Server{settings: settings}
	if s.account, err = unprivileged(); err != nil {
		return nil, err
	}
	// Not t.TempDir: the server's account cannot enter a test's directory.
	if s.dir, err = os.MkdirTemp("", "mintage-postgresql-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(s.dir))
		}
	}()
	if s.account != nil {
		if err := os.Chown(s.dir, int(s.account.Uid), int(s.account.Gid)); err != nil {
			return nil, err
		}
	}
	if err := fill(s); err != nil {
		return nil, err
	}
	if s.port, _, err = freeport.Reserve("127.0.0.1"); err != nil {
		return nil, err
	}
	// mmap: a killed server leaves its dynamic shared memory in its own directory.
	s.args = []string{"-D", s.data(), "-p", strconv.Itoa(s.port), "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=" + s.dir,
		"-c", "max_connections=300", "-c", "log_min_messages=warning", "-c", "dynamic_shared_memory_type=mmap"}
	for _, setting := range settings {
		s.args = append(s.args, "-c", setting)
	}
	return s, s.launch()
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// launch starts the server and waits until it answers.
func (s *Server) launch() error {
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	s.process = s.command("postgres", s.args...)
	s.process.Stdout, s.process.Stderr = log, log
	// The kernel ends the server when this process ends, even if it is killed.
	s.process.SysProcAttr.Pdeathsig = syscall.SIGQUIT
	if err := s.process.Start(); err != nil {
		return err
	}
	s.ended, s.killed = make(chan error, 1), false
	go func() { s.ended <- s.process.Wait() }()
	for end := time.Now().Add(serverTimeout); ; time.Sleep(20 * time.Millisecond) {
		if conn, err := s.connect("postgres"); err == nil {
			return conn.Close(context.Background())
		}
		select {
		case err := <-s.ended:
			return fmt.Errorf("the server has ended: %v\n%s", err, s.Log())
		default:
		}
		if time.Now().After(end) {
			return errors.Join(fmt.Errorf("the server does not answer\n%s", s.Log()), s.Stop())
		}
	}
}

// Stop ends the server, if it runs, and removes its directory.
func (s *Server) Stop() error {
	if s.killed {
		return errors.Join(s.removeMemory(), os.RemoveAll(s.dir))
	}
	if err := s.process.Process.Signal(syscall.SIGINT); err != nil {
		return err
	}
	select {
	case err := <-s.ended:
		return errors.Join(err, os.RemoveAll(s.dir))
	case <-time.After(serverTimeout):
		return errors.Join(errors.New("the server does not stop"), s.process.Process.Kill())
	}
}

// Log returns what the server has logged.
func (s *Server) Log() string {
	b, err := os.ReadFile(filepath.Join(s.dir, "log"))
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// URL names a database of the server, with parameters such as "a=b".
func (s *Server) URL(database string, parameters ...string) string {
	return fmt.Sprintf("postgres://mintage@127.0.0.1:%d/%s?%s", s.port, database, strings.Join(slices.Concat([]string{"sslmode=disable"}, parameters), "&"))
}

// Database makes an empty database and returns its name. It is dropped at the
// end of the test.
func (s *Server) Database(t testing.TB, options ...string) string {
	t.Helper()
	name := freshName()
	s.Run(t, "postgres", `CREATE DATABASE `+name+` `+strings.Join(options, " "))
	t.Cleanup(func() { s.Run(t, "postgres", `DROP DATABASE `+name+` WITH (FORCE)`) })
	return name
}

// Schema makes an empty schema, which is much cheaper than a database, and
// returns its name and the URL of a store in it. Stop removes it with the server.
func (s *Server) Schema(t testing.TB, parameters ...string) (name, url string) {
	t.Helper()
	name = freshName()
	s.makeSchema(t, `CREATE SCHEMA `+name)
	return name, s.URL("postgres", append(parameters, "search_path="+name)...)
}

func freshName() string { return "test_" + strings.ToLower(cryptorand.Text()) }

// makeSchema runs a statement that makes a schema. All calls share one connection, because
// a new connection costs more than the statement.
func (s *Server) makeSchema(t testing.TB, text string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	var err error
	if s.makes == nil || s.makes.IsClosed() {
		if s.makes, err = s.connect("postgres"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := execute(s.makes, text); err != nil {
		t.Fatal(err)
	}
}

// Run runs statements in a database, on a connection of their own, and returns the
// rows of their results: a line for each, with | between the values.
func (s *Server) Run(t testing.TB, database, text string) string {
	t.Helper()
	out, err := s.query(database, text)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (s *Server) query(database, text string) (string, error) {
	conn, err := s.connect(database)
	if err != nil {
		return "", err
	}
	out, err := execute(conn, text)
	return out, errors.Join(err, conn.Close(context.Background()))
}

// connect connects to a database, without starting psql.
func (s *Server) connect(database string) (*pgconn.PgConn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return pgconn.Connect(ctx, fmt.Sprintf("host=%s port=%d user=mintage dbname=%s sslmode=disable options='-c statement_timeout=60s'", s.dir, s.port, database))
}

func execute(conn *pgconn.PgConn, text string) (string, error) {
	results, err := conn.Exec(context.Background(), text).ReadAll()
	if err != nil {
		return "", fmt.Errorf("%s: %w", text, err)
	}
	var lines []string
	for _, r := range results {
		for _, row := range r.Rows {
			lines = append(lines, string(bytes.Join(row, []byte("|"))))
		}
	}
	return strings.TrimSpace(strings.Join(lines, "\n")), nil
}

// command returns a command that runs one of the server's programs under its account.
func (s *Server) command(name string, args ...string) *exec.Cmd {
	c := exec.Command(programs+name, args...)
	c.Env = append(os.Environ(), "PGCONNECT_TIMEOUT=10", "PGOPTIONS=-c statement_timeout=60s")
	c.Dir = s.dir
	c.SysProcAttr = &syscall.SysProcAttr{Credential: s.account}
	return c
}

// unprivileged returns the account for a server, which refuses to run as root. It returns
// nil if this process does not run as root.
func unprivileged() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("the account of Debian's PostgreSQL is needed: %w", err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}
