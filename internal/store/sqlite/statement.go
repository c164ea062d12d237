package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
)

// A statement is a prepared statement used through the driver itself, for the
// two that every refresh runs. database/sql takes locks and converts values in
// both directions, which costs a third of such a statement's time. The rest of
// the engine uses database/sql. A statement belongs to one goroutine at a time.
type statement struct {
	stmt interface {
		driver.Stmt
		driver.StmtExecContext
		driver.StmtQueryContext
	}
	args []driver.NamedValue
	row  []driver.Value
}

// prepare makes a statement on a connection that the caller keeps for itself.
func prepare(conn *sql.Conn, query string, columns int) (*statement, error) {
	s := &statement{row: make([]driver.Value, columns)}
	err := conn.Raw(func(dc any) error {
		st, err := dc.(driver.Conn).Prepare(query)
		if err != nil {
			return err
		}
		var ok bool
		if s.stmt, ok = st.(interface {
			driver.Stmt
			driver.StmtExecContext
			driver.StmtQueryContext
		}); !ok {
			return errors.New("the SQLite driver has no context statements")
		}
		return nil
	})
	return s, err
}

// The background context is deliberate: with one that can end, the driver
// starts a goroutine for each statement to watch it. The busy timeout bounds
// the wait for a lock, and nothing else here can take long.

func (s *statement) exec(values ...driver.Value) (affected int64, err error) {
	res, err := s.stmt.ExecContext(context.Background(), s.bind(values))
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// queryRow returns the first row, valid until the next call, or nil if there
// is none.
func (s *statement) queryRow(values ...driver.Value) ([]driver.Value, error) {
	rows, err := s.stmt.QueryContext(context.Background(), s.bind(values))
	if err != nil {
		return nil, err
	}
	err = rows.Next(s.row)
	if cerr := rows.Close(); err == nil {
		err = cerr
	}
	if errors.Is(err, io.EOF) {
		return nil, nil
	}
	return s.row, err
}

func (s *statement) bind(values []driver.Value) []driver.NamedValue {
	s.args = s.args[:0]
	for i, v := range values {
		s.args = append(s.args, driver.NamedValue{Ordinal: i + 1, Value: v})
	}
	return s.args
}

func (s *statement) close() {
	if s != nil && s.stmt != nil {
		s.stmt.Close()
	}
}
