package server

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestConcurrentRequestsShareADeadlineAndGetTheirFullTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d deadlines
		first := d.of(time.Now())
		time.Sleep(requestSpan - 1)
		late := d.of(time.Now())
		if first != late {
			t.Error("two requests within the span have a timer each")
		}
		time.Sleep(1)
		next := d.of(time.Now())
		if next == late {
			t.Error("a request after the span shares the deadline of those before")
		}
		time.Sleep(requestTime - 1 - 1)
		if first.Err() != nil || next.Err() != nil {
			t.Errorf("ended early: %v, %v", first.Err(), next.Err())
		}
		time.Sleep(1 + 1)
		synctest.Wait()
		if late.Err() != context.DeadlineExceeded || next.Err() != nil {
			t.Errorf("after its time: %v, and %v for one that began later", late.Err(), next.Err())
		}
		time.Sleep(requestSpan)
		synctest.Wait()
		if next.Err() != context.DeadlineExceeded {
			t.Errorf("the last one never ends: %v", next.Err())
		}
	})
}

func BenchmarkDeadline(b *testing.B) {
	b.Run("shared", func(b *testing.B) {
		var d deadlines
		for b.Loop() {
			d.of(time.Now())
		}
	})
	b.Run("of its own", func(b *testing.B) {
		for b.Loop() {
			_, cancel := context.WithDeadline(context.Background(), time.Now().Add(requestTime))
			cancel()
		}
	})
}
