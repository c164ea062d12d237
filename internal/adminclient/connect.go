package adminclient

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/user"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/directory"
	"github.com/mintage/mintage/internal/grant"
	"github.com/mintage/mintage/internal/keys"
	"github.com/mintage/mintage/internal/server"
	serveradmin "github.com/mintage/mintage/internal/server/admin"
	"github.com/mintage/mintage/internal/store"
)

const (
	// dialTime limits a connection attempt, and the TLS handshake after it.
	dialTime = 5 * time.Second
	// answerTime limits the wait for the header of an answer: for some answers, the server
	// reads every grant.
	answerTime = 5 * time.Minute
	// lockInterval is how often a command tries to connect, or else to lock the store.
	lockInterval = 50 * time.Millisecond
)

// Connect returns a client of the configured deployment for a command with a version. The
// client calls the server at the admin socket or address or, if no server runs, a handler
// in this process. If the operator has named a server (named), only that server will do.
// The caller closes the client.
func Connect(ctx context.Context, cfg config.Config, version string, named bool) (*Client, error) {
	return connect(ctx, cfg, version, named, deployment.LockTime)
}

// connect is Connect with a limit of the wait for the lock.
func connect(ctx context.Context, cfg config.Config, version string, named bool, wait time.Duration) (*Client, error) {
	for end := time.Now().Add(wait); ; {
		a, err := running(ctx, cfg, named)
		if a == nil && err == nil {
			a, err = inProcess(ctx, cfg)
		}
		if err == nil {
			a.version = version
			return a, nil
		}
		if !errors.Is(err, deployment.ErrLocked) {
			return nil, err
		}
		if time.Now().After(end) {
			return nil, deployment.Hint(fmt.Errorf("%w, and no server answers on %s", err, cfg.AdminListen()),
				"if that process is a server which is starting or stopping, try again; otherwise name its configuration with --config, or its admin API with --admin-listen and --admin-token-file")
		}
		if !directory.Pause(ctx, lockInterval) {
			return nil, context.Cause(ctx)
		}
	}
}

// running returns a client of the server that runs, or nil if none does.
func running(ctx context.Context, cfg config.Config, named bool) (*Client, error) {
	path, unix := strings.CutPrefix(cfg.AdminListen(), "unix:")
	network, address := "unix", path
	if !unix {
		var err error
		if address, err = reachable(cfg.Admin.Listen); err != nil {
			return nil, err
		}
		network = "tcp"
	}
	dialer := net.Dialer{Timeout: dialTime}
	conn, err := dialer.DialContext(ctx, network, address)
	if err == nil {
		conn.Close()
		a, err := Open(cfg, "")
		if err == nil {
			a.client.Timeout = 0 // counting grants can take long; the operator can stop it
		}
		return a, err
	}
	refused := errors.Is(err, syscall.ECONNREFUSED)
	switch {
	case unix && (refused || errors.Is(err, fs.ErrNotExist)):
		return nil, nil // no server, or the socket of one that was killed
	case unix && errors.Is(err, fs.ErrPermission):
		info, hidden := os.Lstat(path)
		if hidden != nil {
			return nil, nil // inProcess reports the error, because it cannot open the store
		}
		return nil, deployment.Hint(fmt.Errorf("the admin socket %s refuses this user: %w", path, err), admitted(info))
	case !unix && refused && !named && isLocal(address):
		return nil, nil
	}
	return nil, deployment.Hint(fmt.Errorf("no server answers on %s: %w", address, err), "start it with `mintage serve`, or name another deployment with --config, --data or --admin-listen")
}

// admitted advises how to get access to a socket.
func admitted(socket fs.FileInfo) string {
	owner, ok := socket.Sys().(*syscall.Stat_t)
	if !ok {
		return "run this as the server's user"
	}
	name, group := strconv.Itoa(int(owner.Uid)), strconv.Itoa(int(owner.Gid))
	if u, err := user.LookupId(name); err == nil {
		name = u.Username
	}
	if g, err := user.LookupGroupId(group); err == nil {
		group = g.Name
	}
	if socket.Mode().Perm()&0o060 == 0o060 {
		return fmt.Sprintf("members of the group %s may use it: join it (usermod -a -G %s), or run this as %s (sudo -u %s)", group, group, name, name)
	}
	return fmt.Sprintf("run this as %s (sudo -u %s), or let a group use it: admin.group of the server", name, name)
}

// isLocal reports whether an address is one of this machine.
func isLocal(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return false
	}
	l.Close()
	return true
}

// reachable returns the address to dial for a listener: a listener on every address is
// reached at localhost.
func reachable(listen string) (string, error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", deployment.Usage(fmt.Errorf("admin.listen: %q must be unix:PATH or HOST:PORT", listen))
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost" // it listens on every address of this machine
	}
	return net.JoinHostPort(host, port), nil
}

// Open returns a client of a running server. It verifies a server on TCP with the
// authorities of caFile, or else with those of adminRoots.
func Open(cfg config.Config, caFile string) (*Client, error) {
	tr := &http.Transport{DisableKeepAlives: true, TLSHandshakeTimeout: dialTime, ResponseHeaderTimeout: answerTime}
	a := &Client{client: http.Client{Timeout: 10 * time.Second, Transport: tr}}
	if path, unix := strings.CutPrefix(cfg.AdminListen(), "unix:"); unix {
		a.at, a.url = path, "http://admin"
		tr.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", path)
		}
		return a, nil
	}
	var err error
	if a.at, err = reachable(cfg.Admin.Listen); err != nil {
		return nil, err
	}
	a.url = "https://" + a.at
	if cfg.Admin.TokenFile == "" {
		return nil, deployment.Usage(deployment.Hint(fmt.Errorf("the admin API at %s needs its token", a.at), "name its file with --admin-token-file"))
	}
	a.file = cfg.Admin.TokenFile
	if a.token, err = deployment.ReadAdminToken(a.file); err != nil {
		return nil, err
	}
	roots, err := adminRoots(cfg, caFile)
	tr.TLSClientConfig = &tls.Config{RootCAs: roots}
	return a, err
}

// adminRoots returns the certificate authorities of caFile. Without caFile, it returns those
// of the system and, if this user can read them, that of the data directory's --dev server
// and the certificate of tls.cert.
func adminRoots(cfg config.Config, caFile string) (*x509.CertPool, error) {
	roots, files := x509.NewCertPool(), []string{caFile}
	if caFile == "" {
		files = []string{deployment.DevCAFile(cfg), cfg.TLS.Cert}
		if system, err := x509.SystemCertPool(); err == nil {
			roots = system
		}
	}
	for _, file := range files {
		pem, err := os.ReadFile(file)
		switch {
		case caFile == "" && err != nil: // this user may not read it
		case err != nil:
			return nil, fmt.Errorf("certificate authorities: %w", err)
		case !roots.AppendCertsFromPEM(pem):
			return nil, fmt.Errorf("certificate authorities: %s holds no certificate in PEM", file)
		}
	}
	return roots, nil
}

// inProcess opens the store and returns a client of the same handler that a server runs.
// It reads no key before a request needs one, so that an operator without the
// key-encryption key can look, disable and revoke.
func inProcess(ctx context.Context, cfg config.Config) (*Client, error) {
	opened, nodes, release, err := deployment.OpenAlone(ctx, cfg)
	if err != nil {
		return nil, err
	}
	st, now := deployment.Audited(cfg, opened), time.Now
	if nodes != nil {
		behind := sync.OnceValue(func() time.Duration { return directory.Behind(context.WithoutCancel(ctx), nodes, cfg.Skew()) })
		now = func() time.Time { return time.Now().Add(behind()) }
	}
	// The first request of a command reads the whole directory, and later ones the changes.
	known := sync.OnceValues(func() (*directory.Directory, error) {
		return directory.Read(context.WithoutCancel(ctx), st, nil, deployment.KeySchedule(cfg), time.Now)
	})
	cases := admin.Admin{
		Current: func(ctx context.Context) (*directory.View, error) {
			d, err := known()
			if err != nil {
				return nil, err
			}
			return d.Current(ctx)
		},
		Store: st, Policies: deployment.Policies(cfg), Schedule: deployment.KeySchedule(cfg), Now: now,
		KEK: func(context.Context) (*keys.KEK, error) { return deployment.ReadKEK(cfg) },
		Ring: func(ctx context.Context) (*keys.Ring, error) {
			kek, err := deployment.ReadKEK(cfg)
			if err != nil {
				return nil, err
			}
			known, err := directory.Open(ctx, st, kek, keys.Schedule{}, slog.New(slog.DiscardHandler), time.Now)
			if err != nil {
				return nil, err
			}
			return known.Ring(), nil
		},
	}
	if nodes != nil {
		cases.Settle = func(ctx context.Context) {
			ctx, cancel := context.WithTimeout(ctx, directory.SettleTime)
			defer cancel()
			directory.AwaitHeartbeats(ctx, nodes, grant.At(now()))
		}
	}
	var realms []*serveradmin.API
	for _, of := range cfg.Each() {
		own := cases
		own.Realm, own.Issuer, own.Policy, own.Whole = of.Realm, of.IssuerID(), deployment.Policy(of), st
		if of.Login.Mode == config.LoginUsers {
			own.OperatorRealm = of.Realm
		}
		own.Profile = store.Profile(of.Authorization.Demanded())
		if own.Policy.RefreshLifetime = cfg.LongestRefresh(); len(cfg.Realms) > 0 {
			own.Store = &store.RealmStore{Store: st, Name: of.Realm}
		}
		a := serveradmin.NewLocal(own)
		a.Service = of.ServiceName()
		a.ConsoleURL = cfg.ConsoleURL()
		a.Realm = adminapi.Realm{Name: strings.TrimPrefix(of.Realm, "/"), Issuer: of.IssuerID(), Login: of.Login.Mode}
		realms = append(realms, a)
	}
	return &Client{
		at: "the store " + cfg.StoreName() + ", in this process: no server runs", url: "http://admin", local: true,
		client: http.Client{Transport: server.InProcess{Handler: serveradmin.Realms(realms)}},
		close: func() {
			st.Close()
			release()
		},
	}, nil
}
