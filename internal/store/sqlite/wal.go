package sqlite

import (
	"errors"
	"sync"
	"syscall"
	"unsafe"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// This file gives the writer's connection a VFS (https://sqlite.org/vfs.html) that
// collects what SQLite writes to the log. A commit writes each page that it has changed
// with two system calls, one for 24 bytes about the page and one for the page. This VFS
// writes them together, before SQLite syncs the file, reads it or queries its size. Other
// connections read the pages of a commit only after its sync, so the VFS does not change
// what is durable or visible, nor when.

// collected is the size of a log's buffer for collected bytes.
const collected = 128 << 10

// A logFile is the state of an open log. In SQLite's memory, it follows the state that the
// system's VFS has of the same file.
type logFile struct {
	methods lib.Tsqlite3_io_methods
	system  *lib.Tsqlite3_io_methods
	memory  uintptr // of collected bytes
	offset  int64   // of the memory in the file
	used    int32
	named   bool // a sync by the system's VFS has succeeded: the file's name is durable, too
}

// collectingVFS registers the VFS and returns its name as a C string.
var collectingVFS = sync.OnceValues(func() (name uintptr, err error) {
	tls := libc.NewTLS()
	defer tls.Close()
	if systemVFS = lib.Xsqlite3_vfs_find(tls, 0); systemVFS == 0 {
		return 0, errors.New("SQLite knows no file system")
	}
	if name, err = libc.CString("collecting"); err != nil {
		return 0, err
	}
	vfs := libc.Xmalloc(tls, libc.Tsize_t(unsafe.Sizeof(lib.Tsqlite3_vfs{})))
	if vfs == 0 {
		return 0, errOutOfMemory
	}
	system, own := at[lib.Tsqlite3_vfs](systemVFS), at[lib.Tsqlite3_vfs](vfs)
	*own = *system
	own.FpNext, own.FzName, own.FxOpen = 0, name, pointer(openLog)
	own.FszOsFile += int32(unsafe.Sizeof(logFile{}))
	if rc := lib.Xsqlite3_vfs_register(tls, vfs, 0); rc != lib.SQLITE_OK {
		return 0, &fault{code: int(rc), message: "register a VFS"}
	}
	return name, nil
})

// systemVFS is the default VFS, which opens, reads and writes the files.
var systemVFS uintptr

// The types of a VFS's functions.
type (
	openFile  = func(tls *libc.TLS, vfs, name, file uintptr, flags int32, out uintptr) int32
	closeFile = func(tls *libc.TLS, file uintptr) int32
	transfer  = func(tls *libc.TLS, file, bytes uintptr, n int32, offset int64) int32
	resize    = func(tls *libc.TLS, file uintptr, size int64) int32
	syncFile  = func(tls *libc.TLS, file uintptr, flags int32) int32
	askSize   = func(tls *libc.TLS, file, size uintptr) int32
)

// pointer returns the C pointer of a Go function that is no closure.
func pointer[F any](f F) uintptr { return *(*uintptr)(unsafe.Pointer(&f)) }

// function returns the function of a C pointer.
func function[F any](p uintptr) F { return *(*F)(unsafe.Pointer(&p)) }

// at returns p, an address outside of Go's heap, as a Go pointer.
func at[T any](p uintptr) *T { return *(**T)(unsafe.Pointer(&p)) }

func logOf(file uintptr) *logFile {
	return at[logFile](file + uintptr(at[lib.Tsqlite3_vfs](systemVFS).FszOsFile))
}

func openLog(tls *libc.TLS, _, name, file uintptr, flags int32, out uintptr) int32 {
	rc := function[openFile](at[lib.Tsqlite3_vfs](systemVFS).FxOpen)(tls, systemVFS, name, file, flags, out)
	if rc != lib.SQLITE_OK || flags&lib.SQLITE_OPEN_WAL == 0 {
		return rc
	}
	methods, l := &at[lib.Tsqlite3_file](file).FpMethods, logOf(file)
	*l = logFile{system: at[lib.Tsqlite3_io_methods](*methods), memory: libc.Xmalloc(tls, collected)}
	if l.memory == 0 {
		return rc // the system's methods work, too
	}
	l.methods = *l.system
	l.methods.FxWrite, l.methods.FxClose = pointer(writeLog), pointer(closeLog)
	l.methods.FxRead, l.methods.FxTruncate = pointer(readLog), pointer(truncateLog)
	l.methods.FxSync, l.methods.FxFileSize = pointer(syncLog), pointer(sizeOfLog)
	*methods = uintptr(unsafe.Pointer(&l.methods))
	return rc
}

func writeLog(tls *libc.TLS, file, bytes uintptr, n int32, offset int64) int32 {
	l := logOf(file)
	if offset != l.offset+int64(l.used) || l.used+n > collected {
		if rc := l.write(tls, file); rc != lib.SQLITE_OK {
			return rc
		}
		l.offset = offset
	}
	if n > collected {
		return function[transfer](l.system.FxWrite)(tls, file, bytes, n, offset)
	}
	copy(memory(l.memory+uintptr(l.used), int(n)), memory(bytes, int(n)))
	l.used += n
	return lib.SQLITE_OK
}

// write writes the collected bytes. After an error, they are dropped: SQLite rolls the
// transaction back, and writes the next one in its place.
func (l *logFile) write(tls *libc.TLS, file uintptr) int32 {
	n := l.used
	if n == 0 {
		return lib.SQLITE_OK
	}
	l.used = 0
	return function[transfer](l.system.FxWrite)(tls, file, l.memory, n, l.offset)
}

func syncLog(tls *libc.TLS, file uintptr, flags int32) int32 {
	l := logOf(file)
	if rc := l.write(tls, file); rc != lib.SQLITE_OK {
		return rc
	}
	if l.named {
		return syncData(file)
	}
	rc := function[syncFile](l.system.FxSync)(tls, file, flags)
	l.named = rc == lib.SQLITE_OK
	return rc
}

// syncData forces what was written to a log, and its length, to the disk (fdatasync). The
// system's VFS is built with fsync, which also forces the time of the change: for that, ext4
// writes to its journal at each commit. Other builds of SQLite call fdatasync themselves.
func syncData(file uintptr) int32 {
	if syscall.Fdatasync(int(at[lib.TunixFile](file).Fh)) != nil {
		return lib.SQLITE_IOERR_FSYNC
	}
	return lib.SQLITE_OK
}

func readLog(tls *libc.TLS, file, bytes uintptr, n int32, offset int64) int32 {
	l := logOf(file)
	if rc := l.write(tls, file); rc != lib.SQLITE_OK {
		return rc
	}
	return function[transfer](l.system.FxRead)(tls, file, bytes, n, offset)
}

func truncateLog(tls *libc.TLS, file uintptr, size int64) int32 {
	l := logOf(file)
	if rc := l.write(tls, file); rc != lib.SQLITE_OK {
		return rc
	}
	return function[resize](l.system.FxTruncate)(tls, file, size)
}

func sizeOfLog(tls *libc.TLS, file, size uintptr) int32 {
	l := logOf(file)
	if rc := l.write(tls, file); rc != lib.SQLITE_OK {
		return rc
	}
	return function[askSize](l.system.FxFileSize)(tls, file, size)
}

func closeLog(tls *libc.TLS, file uintptr) int32 {
	l := logOf(file)
	wrote := l.write(tls, file)
	libc.Xfree(tls, l.memory)
	if rc := function[closeFile](l.system.FxClose)(tls, file); rc != lib.SQLITE_OK {
		return rc
	}
	return wrote
}
