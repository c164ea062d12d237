package sqlite

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"modernc.org/libc"
	lib "modernc.org/sqlite/lib"
)

// This file calls SQLite's C interface for the statements of a refresh.
// database/sql and the driver take locks, copy column names and types, and
// allocate for each value: more work than SQLite itself does to find a row by its
// key. Everything else in this package uses database/sql. All unsafe code of the
// project is in this file and in wal.go.

var errOutOfMemory = errors.New("out of memory")

// A connection belongs to one goroutine at a time.
type connection struct {
	tls  *libc.TLS
	db   uintptr
	kept []*statement // closed with the connection
}

// A fault is an error of SQLite with its extended result code.
type fault struct {
	code    int
	message string
}

func (f *fault) Error() string {
	text := fmt.Sprintf("%s (%d)", f.message, f.code)
	if IsCode(f, lib.SQLITE_CORRUPT) {
		// Any statement can read a damaged page.
		text += ": the store's file is damaged; put it aside and restore a backup"
	}
	return text
}

// Code is the extended result code (https://sqlite.org/rescode.html).
func (f *fault) Code() int { return f.code }

// connect opens a connection to an existing file. vfs is the name of a VFS as a C string,
// or 0 for the system's.
func connect(path string, vfs uintptr, Pragmas []string) (*connection, error) {
	name, err := libc.CString(path)
	if err != nil {
		return nil, err
	}
	c := &connection{tls: libc.NewTLS()}
	handle := c.tls.Alloc(8)
	rc := lib.Xsqlite3_open_v2(c.tls, name, handle, lib.SQLITE_OPEN_READWRITE|lib.SQLITE_OPEN_NOMUTEX, vfs)
	c.db = *at[uintptr](handle)
	c.tls.Free(8)
	libc.Xfree(c.tls, name)
	if rc != lib.SQLITE_OK {
		err := c.fault()
		c.close()
		return nil, err
	}
	for _, p := range Pragmas {
		if err := c.run("PRAGMA " + p); err != nil {
			c.close()
			return nil, err
		}
	}
	// If SQLite cannot change the journal mode, it reports the old mode and no
	// error.
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2"} {
		if have, err := c.value("PRAGMA " + pragma); err != nil || have != want {
			c.close()
			return nil, errors.Join(fmt.Errorf("%s is %q and not %q: is the file on a local disk?", pragma, have, want), err)
		}
	}
	return c, nil
}

func (c *connection) close() {
	for _, s := range c.kept {
		s.close()
	}
	lib.Xsqlite3_close_v2(c.tls, c.db)
	c.tls.Close()
}

func (c *connection) fault() error {
	return &fault{code: int(lib.Xsqlite3_extended_errcode(c.tls, c.db)), message: libc.GoString(lib.Xsqlite3_errmsg(c.tls, c.db))}
}

// run executes one statement once.
func (c *connection) run(query string) error {
	_, err := c.exec(query)
	return err
}

// bound prepares a statement and binds arguments of type int64, string or []byte.
func (c *connection) bound(query string, args []any) (s *statement, err error) {
	size := 1
	for _, a := range args {
		switch a := a.(type) {
		case string:
			size += len(a)
		case []byte:
			size += len(a)
		}
	}
	if s, err = c.prepare(query, size); err != nil {
		return nil, err
	}
	for i, a := range args {
		switch a := a.(type) {
		case int64:
			s.bindInt(int32(i+1), a)
		case string:
			err = errors.Join(err, s.bindText(int32(i+1), a))
		case []byte:
			err = errors.Join(err, s.bindBlob(int32(i+1), a))
		default:
			err = fmt.Errorf("argument %d is a %T", i+1, a)
		}
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// exec executes one statement once and returns how many rows it changed.
func (c *connection) exec(query string, args ...any) (changed int, err error) {
	s, err := c.bound(query, args)
	if err != nil {
		return 0, err
	}
	defer s.close()
	return s.exec()
}

// number runs a query of one row and returns its first column.
func (c *connection) number(query string, args ...any) (int64, error) {
	s, err := c.bound(query, args)
	if err != nil {
		return 0, err
	}
	defer s.close()
	if _, err := s.step(); err != nil {
		return 0, err
	}
	return s.int(0), nil
}

// value runs a query of one row and returns its first column as text.
func (c *connection) value(query string) (string, error) {
	s, err := c.prepare(query, textSize)
	if err != nil {
		return "", err
	}
	defer s.close()
	defer s.reset()
	if _, err := s.step(); err != nil {
		return "", err
	}
	return s.string(0), nil
}

// Modes of a checkpoint (https://sqlite.org/c3ref/wal_checkpoint_v2.html).
const (
	noCheckpoint         = lib.SQLITE_CHECKPOINT_NOOP
	passiveCheckpoint    = lib.SQLITE_CHECKPOINT_PASSIVE
	restartingCheckpoint = lib.SQLITE_CHECKPOINT_RESTART
)

// checkpoint moves pages from the log into the main file. It returns how many
// pages the log has, and how many of them have been moved.
func (c *connection) checkpoint(mode int32) (pages, moved int, err error) {
	counts := c.tls.Alloc(8)
	defer c.tls.Free(8)
	rc := lib.Xsqlite3_wal_checkpoint_v2(c.tls, c.db, 0, mode, counts, counts+4)
	if rc != lib.SQLITE_OK {
		return 0, 0, c.fault()
	}
	n := at[[2]int32](counts)
	return int(n[0]), int(n[1]), nil
}

// A statement is prepared once and run often, by one goroutine at a time.
type statement struct {
	conn *connection
	stmt uintptr
	// text is memory outside of Go's heap for text and blob parameters.
	text       uintptr
	size, used int
}

// textSize limits the text and blob parameters of one execution, in bytes.
const textSize = 4096

// keep prepares statements that last as long as the connection, whose parameters have at
// most size bytes.
func (c *connection) keep(size int, queries map[**statement]string) (err error) {
	for to, query := range queries {
		if *to, err = c.prepare(query, size); err != nil {
			return err
		}
		c.kept = append(c.kept, *to)
	}
	return nil
}

// prepare prepares a statement whose parameters have at most size bytes.
func (c *connection) prepare(query string, size int) (*statement, error) {
	sql, err := libc.CString(query)
	if err != nil {
		return nil, err
	}
	defer libc.Xfree(c.tls, sql)
	handle := c.tls.Alloc(8)
	defer c.tls.Free(8)
	if rc := lib.Xsqlite3_prepare_v2(c.tls, c.db, sql, -1, handle, 0); rc != lib.SQLITE_OK {
		return nil, c.fault()
	}
	s := &statement{conn: c, stmt: *at[uintptr](handle), size: size}
	if s.text = libc.Xmalloc(c.tls, libc.Tsize_t(size)); s.text == 0 {
		s.close()
		return nil, fmt.Errorf("prepare: %w", errOutOfMemory)
	}
	return s, nil
}

func (s *statement) close() {
	lib.Xsqlite3_finalize(s.conn.tls, s.stmt)
	libc.Xfree(s.conn.tls, s.text)
}

func (s *statement) bindInt(i int32, v int64) {
	lib.Xsqlite3_bind_int64(s.conn.tls, s.stmt, i, v)
}

func (s *statement) bindText(i int32, v string) error {
	p, err := s.place(len(v))
	if err == nil {
		copy(memory(p, len(v)), v)
		lib.Xsqlite3_bind_text(s.conn.tls, s.stmt, i, p, int32(len(v)), lib.SQLITE_STATIC)
	}
	return err
}

func (s *statement) bindBlob(i int32, v []byte) error {
	p, err := s.place(len(v))
	if err == nil {
		copy(memory(p, len(v)), v)
		lib.Xsqlite3_bind_blob(s.conn.tls, s.stmt, i, p, int32(len(v)), lib.SQLITE_STATIC)
	}
	return err
}

// place reserves n bytes until the next reset.
func (s *statement) place(n int) (uintptr, error) {
	if s.used+n > s.size {
		return 0, fmt.Errorf("parameters of more than %d bytes", s.size)
	}
	p := s.text + uintptr(s.used)
	s.used += n
	return p, nil
}

// step advances the statement to its first or next row and reports whether there
// is one. Columns are valid until the next step or reset.
func (s *statement) step() (bool, error) {
	switch rc := lib.Xsqlite3_step(s.conn.tls, s.stmt); rc {
	case lib.SQLITE_ROW:
		return true, nil
	case lib.SQLITE_DONE:
		return false, nil
	default:
		return false, s.conn.fault()
	}
}

// reset ends an execution: the statement releases its lock and can run again.
func (s *statement) reset() {
	lib.Xsqlite3_reset(s.conn.tls, s.stmt)
	s.used = 0
}

// exec runs a statement that returns no rows, and returns how many it changed.
func (s *statement) exec() (changed int, err error) {
	defer s.reset()
	if _, err := s.step(); err != nil {
		return 0, err
	}
	return int(lib.Xsqlite3_changes(s.conn.tls, s.conn.db)), nil
}

// execBound is exec after parameters were bound. If that has failed, it returns the error.
func (s *statement) execBound(failed error) (changed int, err error) {
	if failed != nil {
		s.reset()
		return 0, failed
	}
	return s.exec()
}

func (s *statement) int(i int32) int64 { return lib.Xsqlite3_column_int64(s.conn.tls, s.stmt, i) }

func (s *statement) string(i int32) string {
	p := lib.Xsqlite3_column_text(s.conn.tls, s.stmt, i)
	return string(memory(p, int(lib.Xsqlite3_column_bytes(s.conn.tls, s.stmt, i))))
}

// texts reads the columns from first on as parts of one string, so that the texts
// of a row take one allocation.
func (s *statement) texts(first int32, into [4]*string) {
	var buffer [512]byte
	all := buffer[:0]
	var ends [len(into)]int
	for i := range into {
		column := first + int32(i)
		p := lib.Xsqlite3_column_text(s.conn.tls, s.stmt, column)
		all = append(all, memory(p, int(lib.Xsqlite3_column_bytes(s.conn.tls, s.stmt, column)))...)
		ends[i] = len(all)
	}
	text, began := string(all), 0
	for i, end := range ends {
		*into[i] = text[began:end]
		began = end
	}
}

// blob copies a column.
func (s *statement) blob(i int32) []byte {
	p := lib.Xsqlite3_column_blob(s.conn.tls, s.stmt, i)
	return slices.Clone(memory(p, int(lib.Xsqlite3_column_bytes(s.conn.tls, s.stmt, i))))
}

// memory returns n bytes outside of Go's heap as a slice.
func memory(p uintptr, n int) []byte {
	if n == 0 {
		return nil
	}
	return unsafe.Slice(at[byte](p), n)
}
