package node

import (
	"log/slog"
	"math"
	"os"
	"runtime/debug"
	"syscall"

	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/overload"
	"github.com/mintage/mintage/internal/server"
)

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
// collector runs more often. A connection takes a third of its share.
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
