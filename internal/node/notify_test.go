package node

import (
	"net"
	"path/filepath"
	"testing"
	"time"
)

func TestTheServiceManagerGetsEachStateInOneDatagram(t *testing.T) {
	for name, address := range map[string]string{
		"at a path":   filepath.Join(t.TempDir(), "notify"),
		"in no place": "@mintage-notify-test-" + filepath.Base(t.TempDir()) + time.Now().Format("150405.000000000"),
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: address, Net: "unixgram"})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			t.Setenv("NOTIFY_SOCKET", address)
			if err := notify(stateReady, "two\nlines"); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, 100)
			n, err := l.Read(got)
			if err != nil {
				t.Fatal(err)
			}
			if want := "READY=1\nSTATUS=two lines"; string(got[:n]) != want {
				t.Errorf("told %q, want %q", got[:n], want)
			}
		})
	}
}

func TestWithoutAServiceManagerNothingIsSent(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	if err := notify(stateStopping, "stopping"); err != nil {
		t.Error(err)
	}
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "gone"))
	if notify(stateStopping, "stopping") == nil {
		t.Error("a service manager that is gone was notified")
	}
	t.Setenv("NOTIFY_SOCKET", "vsock:2:1234")
	if notify(stateStopping, "stopping") == nil {
		t.Error("an address that is not understood was used")
	}
}
