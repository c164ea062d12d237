package server

// A line is of those who wait, whoever came first in front. Anybody can leave it
// from within. The zero line is empty.
type line[T any] struct {
	first, last *link[T]
	n           int
}

// A link is a place in one line.
type link[T any] struct {
	of            *T
	in            bool
	before, after *link[T]
}

func (l *line[T]) push(p *link[T]) { l.insert(p, l.last) }

// insert puts p behind another, or in front of all if that is nil.
func (l *line[T]) insert(p, behind *link[T]) {
	p.before, p.after, p.in = behind, l.first, true
	if behind == nil {
		l.first = p
	} else {
		p.after = behind.after
		behind.after = p
	}
	if p.after == nil {
		l.last = p
	} else {
		p.after.before = p
	}
	l.n++
}

// remove takes a place out of the line, if it is in it.
func (l *line[T]) remove(p *link[T]) {
	if !p.in {
		return
	}
	if p.before == nil {
		l.first = p.after
	} else {
		p.before.after = p.after
	}
	if p.after == nil {
		l.last = p.before
	} else {
		p.after.before = p.before
	}
	p.before, p.after, p.in = nil, nil, false
	l.n--
}
