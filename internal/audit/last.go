package audit

import (
	"context"
	"errors"
	"os"
	"slices"
)

// Last returns at most n entries that the filter selects, of those before a sequence
// number (0: the end of the log), the latest first; and the number to continue with, 0 if
// there are no more. It reads the log from its end, skips lines that are no records, and
// does not verify the chain. If ctx ends, it returns the entries found so far; with before
// 0, it also stops after firstLook, so that no reader waits long for the latest.
func Last(ctx context.Context, dir string, f Filter, before uint64, n int) (list []Entry, next uint64, err error) {
	files, err := segments(dir)
	if err != nil {
		return nil, 0, err
	}
	read := 0
	for _, s := range slices.Backward(skip(files, f.Since)) {
		first, damaged := s.firstEntry()
		if damaged == nil && before != 0 && first.Seq >= before {
			continue
		}
		err = s.backwards(func(line []byte) bool {
			read += len(line)
			interrupted := ctx.Err() != nil || before == 0 && read > firstLook
			if !interrupted && !f.mayMatch(line) {
				return true
			}
			e, err := parseLine(line)
			switch {
			case err != nil, before != 0 && e.Seq >= before:
				return true
			case interrupted:
				next = e.Seq + 1
				return false
			case !f.match(&e):
				return true
			case len(list) == n:
				next = list[n-1].Seq
				return false
			}
			list = append(list, e)
			return true
		})
		if err != nil || next != 0 {
			return list, next, err
		}
	}
	return list, 0, nil
}

// backwards calls line with each finished line of the segment, the last one first,
// until line returns false.
func (s segment) backwards(line func([]byte) bool) error {
	file, err := os.Open(s.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil // removed by retention meanwhile
	}
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	return linesBackwards(file, info.Size(), func(text []byte, _ int64) bool { return line(text) })
}

// firstLook limits the bytes that Last reads of a log: some ten thousand records.
var firstLook = 4 << 20
