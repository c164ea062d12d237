package postgres_test

import (
	"sync"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/postgres"
	"github.com/mintage/mintage/internal/store/storetest"
)

func TestTheLoadReportsQueuedOperationsAndBatches(t *testing.T) {
	t.Parallel()
	_, url := server.Schema(t)
	st := open(t, url)
	release := st.Hold(postgres.Creations)
	const n = 5
	var done sync.WaitGroup
	for i := range n {
		done.Go(func() {
			g := storetest.Everyday(uint64(i))
			if err := st.CreateGrant(t.Context(), g); err != nil {
				t.Error(err)
			}
			if _, err := st.Grant(t.Context(), g.ID); err != nil { // a read is no commit
				t.Error(err)
			}
		})
	}
	for st.Load().Waiting < n {
		time.Sleep(time.Millisecond)
	}
	release()
	done.Wait()
	want := store.Load{Batches: store.Batches{Cumulative: [9]uint64{0, 0, 0, 1, 1, 1, 1, 1, 1}, Count: 1, Operations: n}}
	if got := st.Load(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
