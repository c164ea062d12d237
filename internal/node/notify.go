package node

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/mintage/mintage/internal/deployment"
)

// States of the service that systemd understands, see sd_notify(3). A watchdog
// is not fed: what a timer of ours could prove is that timers work, and a store
// that does not answer is cured by no restart; /readyz tells of it.
const (
	stateReady     = "READY=1"
	stateReloading = "RELOADING=1"
	stateStopping  = "STOPPING=1"
)

// tell is notify for a program that goes on whatever comes of it.
func tell(log *slog.Logger, state, status string) {
	if err := notify(state, status); err != nil {
		log.Warn("the service manager was not told", "state", state, "error", err)
	}
}

// notify tells the service manager, if there is one, which state the program is
// in, and in a few words why.
func notify(state, status string) error {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return nil
	}
	if !strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "@") {
		return deployment.Hint(errors.New("NOTIFY_SOCKET is neither a path nor an abstract socket"), "it is the service manager's to set: unset it")
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	_, err = c.Write([]byte(state + "\nSTATUS=" + strings.ReplaceAll(status, "\n", " ")))
	return err
}
