package bench

import (
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
	// A process's clock has a hundred ticks a second.
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
	if _, err := ReadUsage(0); err == nil {
		t.Error("process 0 was measured")
	}
	if _, err := SocketOwner(path + "x"); err == nil {
		t.Error("a socket that is not there has an owner")
	}
}

func TestWhatADiskHasWritten(t *testing.T) {
	const stats = ` 254       0 vda 17650 6370 1284434 3812 1204 2931 40961 2010 0 4012 5822 0 0 0 0 0 0
   7       1 loop1 0 0 0 0 0 0 8 0 0 0 0
 259  262145 nvme1n1p1 1 0 8 0 1 0 16 0 0 0 0
`
	for device, want := range map[uint64]int64{254 << 8: 40961 * 512, 7<<8 | 1: 8 * 512, 259<<8 | 1 | 1<<30: 16 * 512} {
		if n, known := sectorsWritten(stats, device); n != want || !known {
			t.Errorf("device %d: %d bytes, %v", device, n, known)
		}
	}
	if n, known := sectorsWritten(stats, 1<<8); known {
		t.Errorf("a device that is not there has written %d bytes", n)
	}
	if _, known := DiskWritten(filepath.Join(t.TempDir(), "missing")); known {
		t.Error("a directory that is not there is on a disk")
	}
}
