package bench

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestAProcessCanBeMeasuredAndFoundByItsSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "admin.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	pid, err := SocketOwner(path)
	if err != nil || pid != os.Getpid() {
		t.Fatalf("process %d: %v", pid, err)
	}
	before, err := ReadUsage(pid)
	if err != nil {
		t.Fatal(err)
	}
	if before.Resident < 1<<20 || before.Peak < before.Resident {
		t.Errorf("memory: %+v", before)
	}
	// The clock of a process ticks a hundred times a second.
	after := before
	for deadline := time.Now().Add(10 * time.Second); after.CPU == before.CPU && time.Now().Before(deadline); {
		for i := range 1 << 20 {
			_ = upper(bucket(uint64(i)))
		}
		if after, err = ReadUsage(pid); err != nil {
			t.Fatal(err)
		}
	}
	if after.CPU <= before.CPU {
		t.Errorf("processor time stands still at %s", after.CPU)
	}
	disk, err := os.ReadFile("/proc/self/io")
	if err != nil || !bytes.Contains(disk, []byte("\nwrite_bytes: ")) {
		t.Errorf("/proc/self/io: %q, %v", disk, err)
	}
	if n := written([]byte("rchar: 1\nwchar: 2\nwrite_bytes: 40960\ncancelled_write_bytes: 3\n")); n != 40960 {
		t.Errorf("%d bytes written", n)
	}
	if _, err := ReadUsage(0); err == nil {
		t.Error("process 0 was measured")
	}
	if _, err := SocketOwner(path + "x"); err == nil {
		t.Error("a socket that is not there has an owner")
	}
}
