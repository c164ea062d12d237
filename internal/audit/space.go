package audit

import (
	"syscall"
	"time"
)

// The trail is on the disk of the store, as a rule, which needs space more
// than the trail does. So much of the disk stays free of routine records: a
// share of it, and no less than minReserve, but never more than half.
const (
	minReserve   = 512 << 20
	reserveShare = 50
	lookEvery    = time.Second
)

// A disk is how many bytes there are, and how many of them can be had.
type disk struct{ free, total uint64 }

// diskOf is the disk that a path is on.
func diskOf(path string) (disk, error) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(path, &fs); err != nil {
		return disk{}, err
	}
	return disk{uint64(fs.Bavail) * uint64(fs.Bsize), uint64(fs.Blocks) * uint64(fs.Bsize)}, nil
}

func (d disk) reserve() uint64 { return min(max(minReserve, d.total/reserveShare), d.total/2) }

// leavesOut is the last class of events that there is no space for: routine
// from the reserve on, and from half of it on what strangers can cause as well.
// Once there is too little, it takes a quarter more to be enough again.
func (d disk) leavesOut(before class) class {
	enough := func(size uint64, c class) uint64 {
		if before >= c {
			size += size / 4
		}
		return size
	}
	switch {
	case d.free < enough(d.reserve()/2, hostile):
		return hostile
	case d.free < enough(d.reserve(), routine):
		return routine
	}
	return 0
}

// look looks how much space there is, once a second at most.
func (w *writer) look() {
	now := time.Now()
	if now.Sub(w.looked) < lookEvery {
		return
	}
	w.looked = now
	d, err := w.opt.disk(w.opt.Directory)
	if err != nil {
		return // the directory is not there yet, or cannot be reached: writing tells
	}
	w.mu.Lock()
	before := w.short
	w.short = d.leavesOut(before)
	w.mu.Unlock()
	about := []any{"directory", w.opt.Directory, "free_bytes", d.free, "reserve_bytes", d.reserve()}
	switch left := w.short; {
	case left == before:
	case left == 0:
		w.opt.Log.Info("the disk of the audit trail has space again: everything is recorded", about...)
	case left == hostile:
		w.opt.Log.Error("the disk of the audit trail is nearly full: neither refreshes and refusals nor failures of strangers are recorded; make space", about...)
	case before == 0:
		w.opt.Log.Error("the disk of the audit trail has little space left: refreshes and refusals are not recorded; make space, or lower audit.max_size", about...)
	}
}
