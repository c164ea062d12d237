package sqlite

import (
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/mintage/mintage/internal/store"
)

const insertEventSQL = `INSERT INTO events (id, at, name, about, actor, detail) VALUES (?, ?, ?, ?, ?, ?)`

// putEvents stores events in the writer's transaction.
func (w *writer) putEvents(events []store.Event) error {
	s := w.insertEvent
	for _, e := range events {
		id := make([]byte, 16)
		rand.Read(id)
		s.bindInt(2, int64(e.At))
		err := errors.Join(s.bindBlob(1, id), s.bindText(3, string(e.Name)), s.bindText(4, e.About), s.bindText(5, e.Actor), s.bindText(6, e.Detail))
		if err != nil {
			s.reset()
		} else {
			_, err = s.exec()
		}
		if err != nil {
			return fmt.Errorf("write event: %w", err)
		}
	}
	return nil
}
