package audit

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// The log is read backwards, across the borders of files and read buffers.
func TestLast(t *testing.T) {
	w := newWorld(t)
	o := w.options()
	o.size = 3 * backStep
	long := strings.Repeat("x", 200)
	var want []string
	for i := range 40 {
		var events []Event
		for j := range 50 {
			e := Event{Name: LoginSucceeded, Time: w.now, RequestID: fmt.Sprintf("%016x", i*50+j), Detail: long, ClientID: []string{"even", "odd"}[j%2]}
			events, want = append(events, e), append(want, e.RequestID)
		}
		w.recordAs(o, events...)
		w.step(time.Hour)
	}
	slices.Reverse(want)
	if list, err := segments(w.dir); err != nil || len(list) < 3 {
		t.Fatalf("%d files, %v", len(list), err)
	}
	pages := func(f Filter, n int) (got []string, times int) {
		var before uint64
		for {
			list, next, err := Last(t.Context(), w.dir, f, before, n)
			if err != nil || len(list) > n {
				t.Fatalf("%d records, %v", len(list), err)
			}
			for _, e := range list {
				got = append(got, e.RequestID)
			}
			if times++; next == 0 {
				return got, times
			}
			before = next
		}
	}
	logins := Filter{Events: []Name{LoginSucceeded}}
	for _, n := range []int{7, 100, len(want), len(want) + 1} {
		got, times := pages(logins, n)
		if !slices.Equal(got, want) || times != (len(want)+n-1)/n {
			t.Errorf("in pages of %d: %d of %d records in %d pages", n, len(got), len(want), times)
		}
	}
	odd := logins
	odd.ClientID = "odd"
	if got, _ := pages(odd, 30); len(got) != len(want)/2 {
		t.Errorf("%d records of a client, of %d", len(got), len(want)/2)
	}
	if got, _ := pages(Filter{RequestID: want[len(want)-1]}, 10); len(got) != 1 {
		t.Errorf("%d records of the first request", len(got))
	}
	// Files before the requested instant are not read.
	w.replace(1, []byte("no record\n"))
	recent := logins
	recent.Since = w.now.Add(-90 * time.Minute)
	if got, _ := pages(recent, 1000); len(got) != 50 {
		t.Errorf("%d recent records", len(got))
	}
	if got, _ := pages(logins, 1000); len(got) < len(want)/2 {
		t.Errorf("%d records beside a damaged file", len(got))
	}
	// An incomplete last line is ignored.
	list, err := segments(w.dir)
	if err != nil {
		t.Fatal(err)
	}
	end := list[len(list)-1].number
	w.replace(end, append(w.text(end), `{"seq":99999,"event":"login_succeeded","request_id":"torn`...))
	if got, _, err := Last(t.Context(), w.dir, logins, 0, 1); err != nil || len(got) != 1 || got[0].RequestID != want[0] {
		t.Errorf("%v, %v", got, err)
	}
	if list, next, err := Last(t.Context(), t.TempDir(), Filter{}, 0, 10); len(list) > 0 || next != 0 || err != nil {
		t.Errorf("of no log: %v, %d, %v", list, next, err)
	}
}

// A search that runs out of time returns its position.
func TestAnInterruptedSearchGoesOn(t *testing.T) {
	w := newWorld(t)
	w.recordAs(w.small(), Event{Name: LoginSucceeded, RequestID: "first"}, Event{Name: LoginSucceeded, RequestID: "second"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	list, next, err := Last(ctx, w.dir, Filter{}, 0, 10)
	if err != nil || len(list) != 0 || next == 0 {
		t.Fatalf("%v, %d, %v", list, next, err)
	}
	list, next, err = Last(t.Context(), w.dir, Filter{Events: []Name{LoginSucceeded}}, next, 10)
	if err != nil || len(list) != 2 || next != 0 || list[0].RequestID != "second" {
		t.Errorf("afterwards: %v, %d, %v", list, next, err)
	}
	for range Read(w.dir, Filter{}.Within(ctx)) {
		t.Error("a reading goes on after its end")
	}
}

// The first search of a log is limited to a short time, wherever the matching records
// are.
func TestTheFirstLookIsShort(t *testing.T) {
	defer func(was int) { firstLook = was }(firstLook)
	firstLook = 1000
	w := newWorld(t)
	for i, c := range []string{"shop", "a\"b", "other", "other", "other", "other", "other", "other"} {
		w.recordAs(w.small(), Event{Name: LoginSucceeded, RequestID: fmt.Sprint(i), ClientID: c, Detail: strings.Repeat("x", 200)})
	}
	for _, id := range []string{"shop", "a\"b"} {
		list, next, err := Last(t.Context(), w.dir, Filter{ClientID: id}, 0, 10)
		if err != nil || len(list) != 0 || next == 0 {
			t.Fatalf("%v, %d, %v", list, next, err)
		}
		if list, next, err = Last(t.Context(), w.dir, Filter{ClientID: id}, next, 10); err != nil || len(list) != 1 || next != 0 {
			t.Errorf("afterwards: %v, %d, %v", list, next, err)
		}
	}
}
