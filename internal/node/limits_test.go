package node

import (
	"bytes"
	"log/slog"
	"math"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/mintage/mintage/internal/config"
)

func TestConnectionsLeaveFilesForTheStore(t *testing.T) {
	for files, want := range map[uint64]int{4: 2, 100: 50, 256: 128, 1024: 768, 4352: 4096, 1 << 63: 1 << 20} {
		if got := connectionsWith(files); got != want {
			t.Errorf("with %d files: %d connections, want %d", files, got, want)
		}
	}
}

func TestTheErrorOfAPrivilegedPortContainsAdvice(t *testing.T) {
	for err, privilege := range map[error]bool{syscall.EACCES: true, syscall.EADDRINUSE: false} {
		advice := addressAdvice(&net.OpError{Op: "listen", Err: os.NewSyscallError("bind", err)}, "listen")
		if strings.Contains(advice, "CAP_NET_BIND_SERVICE") != privilege || !strings.Contains(advice, "choose another address with --listen") {
			t.Errorf("%v: %s", err, advice)
		}
	}
}

func TestTheMemoryLimitFollowsTheConnectionLimit(t *testing.T) {
	for connections, want := range map[int]int64{0: math.MaxInt64, 1: 512 << 20, 4096: 512 << 20, 40960: 5 << 30} {
		if got := memoryLimit(connections); got != want {
			t.Errorf("%d connections: %d bytes, want %d", connections, got, want)
		}
	}
}

// The test cannot change its limit of open files, so the configuration requests more
// connections than the limit allows.
func TestTooFewOpenFilesLowerTheConnectionLimit(t *testing.T) {
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		t.Fatal(err)
	}
	safe := connectionsWith(files.Cur)
	for _, c := range []struct {
		asked, want int
		warned      bool
	}{{10, 10, false}, {safe, safe, false}, {safe + 1, safe, true}, {2 << 20, safe, true}} {
		var text bytes.Buffer
		cfg := config.Default()
		cfg.Limits.Connections, cfg.Limits.ConnectionsPerAddress = c.asked, 5
		cfg.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
		l := connectionLimits(cfg, slog.New(slog.NewTextHandler(&text, nil)))
		if l.All != c.want || l.OfAddress != 5 || len(l.Proxies) != 1 || l.LoopbackIsProxy {
			t.Errorf("%d are configured: %+v", c.asked, l)
		}
		if warned := strings.Contains(text.String(), "LimitNOFILE"); warned != c.warned {
			t.Errorf("%d are configured: warned %t: %s", c.asked, warned, text.String())
		}
	}
	cfg := config.Default()
	cfg.TLS.Cert = ""
	if l := connectionLimits(cfg, slog.New(slog.DiscardHandler)); !l.LoopbackIsProxy {
		t.Error("without TLS and without declared proxies, a proxy on this machine is not a trusted proxy")
	}
}
