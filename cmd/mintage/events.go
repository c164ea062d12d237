package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/mintage/mintage/internal/show"
	"github.com/mintage/mintage/internal/store"
)

// Of what is recorded, the last so many events are shown.
const (
	shownEvents = 100
	readEvents  = 10000
)

// event records what the operator does.
func (o *office) event(name store.EventName, about, detail string) store.Event {
	return store.Event{At: o.now, Name: name, About: about, Actor: o.actor, Detail: detail}
}

// events are the last ones about a grant, a client or a subject, oldest first.
func (o *office) events(ctx context.Context, about string) ([]show.Event, error) {
	list, err := o.store.Events(ctx, about, readEvents)
	if err != nil {
		return nil, err
	}
	list = list[max(0, len(list)-shownEvents):]
	var views []show.Event
	for _, e := range list {
		views = append(views, show.Event{At: show.JSONInstant(e.At), Name: string(e.Name), Actor: e.Actor, Detail: e.Detail})
	}
	return views, nil
}

// printEvents prints a table below another one, if there is anything in it.
func printEvents(w io.Writer, list []show.Event) error {
	if len(list) == 0 {
		return nil
	}
	var rows [][]string
	for _, e := range list {
		rows = append(rows, []string{e.At.Format(time.RFC3339), e.Name, e.Actor, e.Detail})
	}
	fmt.Fprintln(w)
	return show.Table(w, "AT|EVENT|ACTOR|DETAIL", rows)
}
