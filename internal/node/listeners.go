package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"net"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	cases "github.com/mintage/mintage/internal/admin"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/overload"
	"github.com/mintage/mintage/internal/server"
	"github.com/mintage/mintage/internal/server/admin"
)

// This file opens the sockets, which stay open until the process ends.

// A listener is an open socket with its HTTP server.
type listener struct {
	net.Listener
	server *http.Server
}

// addressAdvice is the advice for an address at which the server cannot listen, by the flag
// that names it.
func addressAdvice(err error, flag string) string {
	advice := "choose another address with --" + flag
	if errors.Is(err, fs.ErrPermission) {
		advice = "a port below 1024 needs CAP_NET_BIND_SERVICE, which the drop-in port-443.conf grants to the packages' unit; or " + advice
	}
	return advice
}

// listenPublic opens the public socket. From then on, the kernel accepts
// connections.
func listenPublic(cfg config.Config) (net.Listener, error) {
	l, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return nil, deployment.Hint(fmt.Errorf("public listener: %w", err), addressAdvice(err, "listen"))
	}
	return l, nil
}

// listen opens the sockets: public, management, admin, and the console if there is one,
// in this order in the list. The public one is opened last, unless it is open already.
func listen(cfg config.Config, public net.Listener, n *node) (list []listener, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, closeAll(list))
		}
	}()
	srv := server.HTTPServer(&n.public, n.log)
	var certificate *server.Certificate
	if cfg.TLS.Cert != "" {
		if certificate, err = server.LoadCertificate(cfg.TLS.Cert, cfg.TLS.Key, n.log); err != nil {
			return nil, err
		}
		certificate.Expect(cfg.PublicURL)
		srv.TLSConfig = server.TLSConfig(certificate)
	}
	n.watch(certificate)
	management, err := net.Listen("tcp", cfg.Management.Listen)
	if err != nil {
		return list, deployment.Hint(fmt.Errorf("management listener: %w", err), addressAdvice(err, "management-listen"))
	}
	list = append(list, listener{management, server.HTTPServer(n.health.Handler(n.scrape(), cfg.Management.Pprof, managementNames(cfg)), n.log)})

	api, err := listenAdmin(cfg)
	if err != nil {
		return list, fmt.Errorf("admin listener: %w", err)
	}
	adminServer := server.HTTPServer(&n.admin, n.log)
	adminServer.ConnContext = nameUser
	if _, unix := api.Addr().(*net.UnixAddr); !unix {
		adminServer.TLSConfig = server.TLSConfig(certificate)
	}
	list = append(list, listener{api, adminServer})
	if cfg.Console.Listen != "" {
		switch l, err := listenConsole(cfg, certificate, n); {
		case err == nil:
			list = append(list, l)
		case n.dev: // the console of a --dev server is optional
			n.log.Warn("there is no console", "error", err)
		default:
			return list, err
		}
	}
	if public == nil {
		if public, err = listenPublic(cfg); err != nil {
			return list, err
		}
	}
	return append([]listener{{n.connections.Bound(public, srv), srv}}, list...), nil
}

// listenConsole opens the listener of the console.
func listenConsole(cfg config.Config, certificate *server.Certificate, n *node) (listener, error) {
	l, err := net.Listen("tcp", cfg.Console.Listen)
	if err != nil {
		return listener{}, deployment.Hint(fmt.Errorf("console listener: %w", err), addressAdvice(err, "console-listen"))
	}
	srv := server.HTTPServer(&n.console, n.log)
	if certificate != nil {
		srv.TLSConfig = server.TLSConfig(certificate)
	}
	bound := server.NewConnections(server.ConnectionLimits{All: consoleConnections}, n.metrics.Shed, n.log.With("listener", "console"))
	return listener{bound.Bound(l, srv), srv}, nil
}

// consoleConnections is how many connections browsers may have to the console, so that the
// public listener always gets open files.
const consoleConnections = 128

// nameUser adds the user at the other end of a Unix socket to the context of its
// requests.
func nameUser(ctx context.Context, conn net.Conn) context.Context {
	local, ok := conn.(*net.UnixConn)
	if !ok {
		return ctx
	}
	raw, err := local.SyscallConn()
	if err != nil {
		return ctx
	}
	uid := -1
	err = raw.Control(func(fd uintptr) { uid = peerUser(int(fd)) })
	if err != nil || uid < 0 {
		return ctx
	}
	return admin.WithActor(ctx, cases.ByUser(deployment.UserOf(uid)))
}

// managementNames returns the names by which the management listener may be called.
func managementNames(cfg config.Config) []string {
	host, _, _ := net.SplitHostPort(cfg.Management.Listen)
	machine, _ := os.Hostname()
	return append(slices.Clone(cfg.Management.Hosts), host, machine)
}

func closeAll(list []listener) (err error) {
	for _, l := range list {
		err = errors.Join(err, l.Close())
	}
	return err
}

// spareFiles is the number of files that a server opens beside its connections: of
// the store, database connections, listeners, certificates.
const spareFiles = 256

func capacity(cfg config.Config) overload.Capacity {
	return overload.Capacity{Requests: cfg.Limits.Requests, Waiting: cfg.Limits.Waiting}
}

func throttleLimits(cfg config.Config) overload.RateLimits {
	t := cfg.Throttle
	return overload.RateLimits{
		AddressFailures: t.AddressFailures, ClientFailures: t.ClientFailures, Interactions: t.Interactions,
		AddressRequests: t.AddressRequests, ClientRequests: t.ClientRequests,
	}
}

// connectionLimits returns the configured limits, lowered to what the limit of open
// files allows: at that limit, the store could not open its files.
func connectionLimits(cfg config.Config, log *slog.Logger) server.ConnectionLimits {
	l := server.ConnectionLimits{
		All: cfg.Limits.Connections, OfAddress: cfg.Limits.ConnectionsPerAddress, Proxies: cfg.TrustedProxies,
		LoopbackIsProxy: cfg.TLS.Cert == "" && len(cfg.TrustedProxies) == 0,
	}
	// The runtime has raised the soft limit to the hard one.
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return l
	}
	most := connectionsWith(files.Cur)
	if l.All != 0 && l.All <= most || l.All == 0 && most >= config.Default().Limits.Connections {
		return l
	}
	log.Warn("the limit of open files is lower than limits.connections needs, and bounds the connections: raise it (ulimit -n, LimitNOFILE in systemd)",
		"open_files", files.Cur, "limits.connections", l.All, "connections", most)
	l.All = most
	return l
}

// connectionsWith returns how many connections a limit of open files allows.
func connectionsWith(files uint64) int {
	const enough = 1 << 20
	if files >= enough {
		return enough
	}
	return max(int(files)-spareFiles, int(files)/2, 1)
}

// memoryLimit returns the soft memory limit (GOMEMLIMIT), above which the garbage
// collector runs more often. It has 128 KiB for each connection, three times its use.
func memoryLimit(connections int) int64 {
	if connections == 0 {
		return math.MaxInt64
	}
	return max(512<<20, int64(connections)*128<<10)
}

// boundConnections applies the connection limits of cfg to the public listener.
func (n *node) boundConnections(cfg config.Config) {
	l := connectionLimits(cfg, n.log)
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit(l.All))
	}
	if n.connections == nil {
		n.connections = server.NewConnections(l, n.metrics.Shed, n.log)
		return
	}
	n.connections.Limit(l)
}

// listenAdmin opens the Unix socket of the admin API, for this user and admin.group, or the
// TCP address.
func listenAdmin(cfg config.Config) (net.Listener, error) {
	if path, unix := strings.CutPrefix(cfg.AdminListen(), "unix:"); unix {
		l, err := listenSocket(path)
		if err != nil || cfg.Admin.Group == "" {
			return l, err
		}
		if err := admit(path, cfg.Admin.Group); err != nil {
			return nil, errors.Join(err, l.Close())
		}
		return l, nil
	}
	return net.Listen("tcp", cfg.Admin.Listen)
}

// adminAccess returns who may call the admin API: on a Unix socket, the file's
// permissions decide.
func adminAccess(cfg config.Config) (access admin.Access, err error) {
	if strings.HasPrefix(cfg.AdminListen(), "unix:") {
		return admin.Access{Socket: true}, nil
	}
	if cfg.Admin.TokenFile != "" {
		if access.Configured, err = deployment.ReadAdminToken(cfg.Admin.TokenFile); err != nil {
			return access, fmt.Errorf("admin listener: %w", err)
		}
	}
	return access, nil
}

// admit lets the members of a group use the socket at path.
func admit(path, group string) error {
	id, err := groupID(group)
	if err != nil {
		return fmt.Errorf("admin.group: %w", err)
	}
	// Change the group before the mode, so that no other group ever has access.
	if err := os.Lchown(path, -1, id); err != nil {
		return deployment.Hint(fmt.Errorf("admin.group %s: %w", group, err), anotherGroup)
	}
	return os.Chmod(path, 0o660)
}

const anotherGroup = "name a group that Mintage's user is a member of with --admin-group, or none"

func groupID(name string) (int, error) {
	g, err := user.LookupGroup(name)
	if err != nil {
		return 0, deployment.Hint(err, anotherGroup)
	}
	return strconv.Atoi(g.Gid)
}

// A socket is a Unix socket that removes its own file when it is closed, and never
// another file under its name.
type socket struct {
	*net.UnixListener
	path string
	made fs.FileInfo
	once sync.Once
}

const anotherPath = "choose another path with --admin-listen unix:PATH"

// longestSocket is how many bytes a socket's path has at most; a NUL follows them.
const longestSocket = len(syscall.RawSockaddrUnix{}.Path) - 1

// checkSocket checks what the system requires of a socket's path.
func checkSocket(path string) error {
	if path == "" || strings.HasPrefix(path, "@") {
		// Linux creates an abstract socket, which every user may open.
		return deployment.Hint(fmt.Errorf("unix:%s names no file", path), anotherPath)
	}
	if len(path) > longestSocket {
		return deployment.Hint(fmt.Errorf("unix:%s has %d bytes, and a socket's path has at most %d", path, len(path), longestSocket), anotherPath)
	}
	if _, err := os.Stat(filepath.Dir(path)); errors.Is(err, fs.ErrNotExist) {
		return deployment.Hint(fmt.Errorf("find the directory of the socket: %w", err), "make it, or "+anotherPath)
	}
	return nil
}

func listenSocket(path string) (net.Listener, error) {
	if err := checkSocket(path); err != nil {
		return nil, err
	}
	if err := removeStaleSocket(path); err != nil {
		return nil, err
	}
	// Only the file's mode keeps others out, so it must be right from the start: a
	// chmod after net.Listen would be too late. The umask holds for the process;
	// files that another goroutine creates meanwhile are at most less readable.
	old := syscall.Umask(0o177)
	l, err := net.Listen("unix", path)
	syscall.Umask(old)
	if err != nil {
		return nil, deployment.Hint(err, anotherPath)
	}
	s := &socket{UnixListener: l.(*net.UnixListener), path: path}
	s.SetUnlinkOnClose(false)
	if s.made, err = os.Lstat(path); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return s, nil
}

// removeStaleSocket removes the socket of a killed server, and nothing else. The lock of
// the data directory does not prove that no server uses the socket: a server of another
// data directory may.
func removeStaleSocket(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.Mode()&fs.ModeSocket == 0 {
		return deployment.Hint(fmt.Errorf("%s exists and is not a socket; it was left alone", path), "move it away, or "+anotherPath)
	}
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		conn.Close()
		return deployment.Hint(fmt.Errorf("another server answers on %s", path), "stop it first, or "+anotherPath)
	}
	// Only ECONNREFUSED means that nothing listens. A full queue, or another user's
	// server, gives other errors.
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return deployment.Hint(fmt.Errorf("%s may be another server's socket: %w", path, err), "remove it if it is not, or "+anotherPath)
	}
	return os.Remove(path)
}

// Close removes the file before it closes the socket: until then, no other file can
// have its inode number.
func (s *socket) Close() (err error) {
	s.once.Do(func() {
		if now, e := os.Lstat(s.path); e == nil && os.SameFile(now, s.made) {
			err = os.Remove(s.path)
		}
		err = errors.Join(err, s.UnixListener.Close())
	})
	return err
}
