package audit

import (
	"errors"
	"io"
	"os"
)

// A Place is where a trail begins, and whether it holds a line.
type Place struct {
	First uint64 // seq of the first line; 0: there is none
	Found bool
}

// Find looks for the line with the seq and hash of h. It reads the one segment
// in which the line is, and verifies nothing.
func Find(dir string, h Head) (p Place, err error) {
	list, err := segments(dir)
	if err != nil {
		return p, err
	}
	var in segment
	for i, s := range list {
		first, err := s.firstEntry()
		if hardlyBegun(err) {
			continue
		}
		if err != nil {
			return p, err
		}
		if p.First == 0 {
			p.First = first.Seq
		}
		if first.Seq <= h.Seq {
			in = list[i]
		}
	}
	if in.number == 0 {
		return p, nil
	}
	f, err := os.Open(in.path)
	if err != nil {
		return p, err
	}
	defer f.Close()
	for lines := newLines(f); ; {
		line, err := lines.next()
		switch {
		case err == io.EOF, errors.Is(err, errUnfinished):
			return p, nil
		case errors.Is(err, errLongLine):
			continue
		case err != nil:
			return p, err
		}
		if hashLine(line) == h.Hash {
			p.Found = true
			return p, nil
		}
	}
}
