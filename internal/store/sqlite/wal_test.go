package sqlite

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// systemCalls records the calls to the operating system, and fullAt is the first byte for
// which the disk has no room.
var (
	systemCalls []string
	fullAt      int64
)

func systemWrite(_ *libc.TLS, _, bytes uintptr, n int32, offset int64) int32 {
	systemCalls = append(systemCalls, fmt.Sprintf("write %d %s", offset, memory(bytes, int(n))))
	if fullAt > 0 && offset+int64(n) > fullAt {
		return lib.SQLITE_FULL
	}
	return lib.SQLITE_OK
}

func systemRead(_ *libc.TLS, _, _ uintptr, n int32, offset int64) int32 {
	systemCalls = append(systemCalls, fmt.Sprintf("read %d %d", offset, n))
	return lib.SQLITE_OK
}

func systemTruncate(_ *libc.TLS, _ uintptr, size int64) int32 {
	systemCalls = append(systemCalls, fmt.Sprintf("truncate %d", size))
	return lib.SQLITE_OK
}

func systemSync(*libc.TLS, uintptr, int32) int32 {
	systemCalls = append(systemCalls, "sync")
	return lib.SQLITE_OK
}

func systemSize(*libc.TLS, uintptr, uintptr) int32 {
	systemCalls = append(systemCalls, "size")
	return lib.SQLITE_OK
}

func systemClose(*libc.TLS, uintptr) int32 {
	systemCalls = append(systemCalls, "close")
	return lib.SQLITE_OK
}

func TestCollectedWritesReachTheLogBeforeItsNextUse(t *testing.T) {
	if _, err := collectingVFS(); err != nil {
		t.Fatal(err)
	}
	tls := libc.NewTLS()
	defer tls.Close()
	system := &lib.Tsqlite3_io_methods{
		FxWrite: pointer(systemWrite), FxRead: pointer(systemRead), FxTruncate: pointer(systemTruncate),
		FxSync: pointer(systemSync), FxFileSize: pointer(systemSize), FxClose: pointer(systemClose),
	}
	size := libc.Tsize_t(at[lib.Tsqlite3_vfs](systemVFS).FszOsFile) + libc.Tsize_t(unsafe.Sizeof(logFile{}))
	file := libc.Xmalloc(tls, size)
	defer libc.Xfree(tls, file)
	*logOf(file) = logFile{system: system, memory: libc.Xmalloc(tls, collected)}
	data, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	descriptor := &at[lib.TunixFile](file).Fh
	*descriptor = int32(data.Fd())
	defer runtime.KeepAlive(system) // the collector does not see it there
	write := func(offset int64, text string) int32 {
		p, err := libc.CString(text)
		if err != nil {
			t.Fatal(err)
		}
		defer libc.Xfree(tls, p)
		return writeLog(tls, file, p, int32(len(text)), offset)
	}
	expect := func(want ...string) {
		t.Helper()
		if !slices.Equal(systemCalls, want) {
			t.Errorf("the system was asked for %.200q, not %.200q", systemCalls, want)
		}
		systemCalls = nil
	}

	write(0, "header")
	write(6, "page")
	write(10, "header")
	expect()
	syncLog(tls, file, 2)
	expect("write 0 headerpageheader", "sync")

	// The first sync made the file's name durable: from now on, syncing its data is
	// enough.
	write(16, "x")
	if rc := syncLog(tls, file, 2); rc != lib.SQLITE_OK {
		t.Errorf("a sync of data: %d", rc)
	}
	expect("write 16 x")
	*descriptor = -1
	if rc := syncLog(tls, file, 2); rc != lib.SQLITE_IOERR_FSYNC {
		t.Errorf("a sync that fails: %d", rc)
	}
	expect()
	*descriptor = int32(data.Fd())

	write(16, "a")
	write(20, "b") // this does not begin where the last write ends
	expect("write 16 a")
	readLog(tls, file, 0, 4, 0)
	expect("write 20 b", "read 0 4")
	write(21, "c")
	sizeOfLog(tls, file, 0)
	expect("write 21 c", "size")
	write(0, "d") // the log starts over
	truncateLog(tls, file, 8)
	expect("write 0 d", "truncate 8")

	most := strings.Repeat("x", collected)
	write(1, "e")
	write(2, most)
	expect("write 1 e")
	write(2+collected, most+"y")
	expect("write 2 "+most, fmt.Sprintf("write %d %sy", 2+collected, most))

	// A full disk fails the commit. The collected writes are dropped.
	fullAt = 30
	defer func() { fullAt = 0 }()
	write(20, strings.Repeat("f", 20))
	if rc := syncLog(tls, file, 2); rc != lib.SQLITE_FULL {
		t.Errorf("a sync on a full disk: %d", rc)
	}
	expect("write 20 " + strings.Repeat("f", 20))
	write(20, "g")
	if rc := syncLog(tls, file, 2); rc != lib.SQLITE_OK {
		t.Errorf("a sync of what fits: %d", rc)
	}
	expect("write 20 g")
	for i, uses := range []func() int32{
		func() int32 { return readLog(tls, file, 0, 1, 0) },
		func() int32 { return sizeOfLog(tls, file, 0) },
		func() int32 { return truncateLog(tls, file, 0) },
		func() int32 { return write(0, "h") },
	} {
		write(30, "full")
		if rc := uses(); rc != lib.SQLITE_FULL {
			t.Errorf("use %d of a log that does not fit: %d", i, rc)
		}
		expect("write 30 full")
	}
	write(30, "full")
	if rc := closeLog(tls, file); rc != lib.SQLITE_FULL {
		t.Errorf("closing a log that does not fit: %d", rc)
	}
	expect("write 30 full", "close")
}
