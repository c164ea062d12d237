package sqlite_test

import (
	"sync"
	"testing"
	"time"

	"github.com/mintage/mintage/internal/store"
	"github.com/mintage/mintage/internal/store/sqlite"
	"github.com/mintage/mintage/internal/store/storetest"
)

func TestTheLoadReportsQueuedOperationsAndBatches(t *testing.T) {
	t.Parallel()
	st, err := sqlite.Create(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	release, held := st.Hold(t.Context())
	const n = 5
	var done sync.WaitGroup
	for i := range n {
		done.Go(func() {
			if err := st.CreateGrant(t.Context(), storetest.Everyday(uint64(i))); err != nil {
				t.Error(err)
			}
		})
	}
	for st.Load().Waiting < n {
		time.Sleep(time.Millisecond)
	}
	release()
	done.Wait()
	if err := <-held; err != nil {
		t.Error(err)
	}
	want := store.Load{Batches: store.Batches{Cumulative: [9]uint64{0, 0, 0, 1, 1, 1, 1, 1, 1}, Count: 1, Operations: n}}
	if got := st.Load(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
