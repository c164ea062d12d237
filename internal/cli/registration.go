package cli

import (
	"cmp"
	"encoding/json"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// registrationFlags holds the values of the flags for a client's settings.
type registrationFlags struct {
	client.Registration
	durations map[string]*string // values by flag
	files     map[string]*string // names, by flag, of files with the values
	lists     listFlags          // of an update
}

// register adds a flag for each setting, or for each that can be changed.
func (g *registrationFlags) register(f *pflag.FlagSet, update bool) {
	g.durations, g.files = map[string]*string{}, map[string]*string{}
	for _, s := range client.Settings {
		help := s.Help
		if update {
			if s.Fixed {
				continue
			}
			help = cmp.Or(s.Update, help)
			if _, ok := s.List(&g.Registration); ok {
				g.lists.register(f, s.Flag, s.Group, s.Each || s.Words)
			}
		}
		if s.File {
			g.files[s.Flag] = f.String(s.Flag, "", help)
			group(f, s.Group, s.Flag)
			continue
		}
		switch p := s.Field(&g.Registration).(type) {
		case *string:
			f.StringVar(p, s.Flag, *p, help)
		case *bool:
			f.BoolVar(p, s.Flag, false, help)
		case *[]string:
			if s.Each {
				f.StringArrayVar(p, s.Flag, nil, help)
			} else {
				f.StringSliceVar(p, s.Flag, nil, help)
			}
		case **store.Milliseconds:
			g.durations[s.Flag] = f.String(s.Flag, "", help)
		}
		group(f, s.Group, s.Flag)
	}
}

// readFiles reads the files that flags name; "" stands for no value.
func (g *registrationFlags) readFiles(f *pflag.FlagSet) error {
	for _, s := range client.Settings {
		if !s.File || !f.Changed(s.Flag) {
			continue
		}
		var body []byte
		if name := *g.files[s.Flag]; name != "" {
			var err error
			if body, err = os.ReadFile(name); err != nil {
				return &oauth.Invalid{Field: s.Flag, Message: err.Error()}
			}
		}
		switch p := s.Field(&g.Registration).(type) {
		case *string:
			*p = string(body)
		case *json.RawMessage:
			*p = body
		}
	}
	return nil
}

// apply changes the settings of r whose flags were given.
func (g *registrationFlags) apply(cmd *cobra.Command, r *client.Registration) error {
	if err := g.readFiles(cmd.Flags()); err != nil {
		return err
	}
	for _, s := range client.Settings {
		if s.Fixed {
			continue
		}
		before, isList := s.List(r)
		if cmd.Flags().Changed(s.Flag) {
			if err := g.set(s, r); err != nil {
				return err
			}
		}
		if isList {
			if err := g.lists.change(cmd, s, r, before); err != nil {
				return err
			}
		}
	}
	return nil
}

// set gives a setting of r the value of its flag.
func (g *registrationFlags) set(s client.Setting, r *client.Registration) (err error) {
	switch to := s.Field(r).(type) {
	case *string:
		*to = *s.Field(&g.Registration).(*string)
	case *bool:
		*to = *s.Field(&g.Registration).(*bool)
	case *json.RawMessage:
		*to = *s.Field(&g.Registration).(*json.RawMessage)
	case *[]string:
		// --audience "" empties the list.
		*to = slices.DeleteFunc(slices.Clone(*s.Field(&g.Registration).(*[]string)), func(text string) bool { return text == "" && (s.Optional || !s.Each) })
	case **store.Milliseconds:
		if *to = nil; *g.durations[s.Flag] != "default" {
			*to, err = parseDuration(s.Flag, *g.durations[s.Flag])
		}
	}
	return err
}

func parseDuration(flag, text string) (*store.Milliseconds, error) {
	d, err := config.ParseDuration(text)
	if err != nil {
		return nil, &oauth.Invalid{Field: flag, Message: err.Error()}
	}
	return store.InMilliseconds(d.Std()), nil
}
