package cli

import (
	"cmp"
	"encoding/json"
	"os"
	"slices"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/config"
	"github.com/mintage/mintage/internal/oauth"
	"github.com/mintage/mintage/internal/store"
)

// registerSettings adds a flag for each setting of a new client. If lists is not nil, it
// adds a flag for each setting that an update can change.
func registerSettings(f *pflag.FlagSet, lists *listFlags) {
	var r client.Registration
	if lists == nil {
		r.Auth = store.AuthEither
	}
	for _, s := range client.Settings {
		help := s.Help
		if lists != nil {
			if s.Fixed {
				continue
			}
			help = cmp.Or(s.Update, help)
			if _, ok := s.List(&r); ok {
				lists.register(f, s.Flag, s.Group, s.Each || s.Words)
			}
		}
		switch p := s.Field(&r).(type) {
		case *string:
			f.String(s.Flag, *p, help)
		case *bool:
			f.Bool(s.Flag, false, help)
		case *[]string:
			if s.Each {
				f.StringArray(s.Flag, nil, help)
			} else {
				f.StringSlice(s.Flag, nil, help)
			}
		default:
			f.String(s.Flag, "", help)
		}
		group(f, s.Group, s.Flag)
	}
}

// applySettings changes the settings of r whose flags were given. Lists is nil for a new
// client.
func applySettings(cmd *cobra.Command, lists *listFlags, r *client.Registration) error {
	if lists != nil {
		lists.lost = nil // of an earlier attempt
	}
	if f := cmd.Flag("profile"); f.Changed {
		r.Profile = store.Profile(f.Value.String())
		r.Follow()
	}
	for _, s := range client.Settings {
		before, isList := s.List(r)
		if cmd.Flags().Changed(s.Flag) {
			if err := applySetting(s, r, cmd.Flag(s.Flag).Value); err != nil {
				return err
			}
		}
		if isList && lists != nil && !s.Fixed {
			if err := lists.change(cmd, s, r, before); err != nil {
				return err
			}
		}
	}
	return nil
}

// applySetting gives a setting of r the value of its flag.
func applySetting(s client.Setting, r *client.Registration, flag pflag.Value) (err error) {
	text := flag.String()
	if s.File && text != "" { // "" stands for no value
		body, err := readFile(s.Flag, text)
		if err != nil {
			return err
		}
		text = string(body)
	}
	// JSON would replace bytes that are not UTF-8.
	if err := checkText(s.Flag, text); err != nil {
		return err
	}
	switch to := s.Field(r).(type) {
	case *string:
		*to = text
	case *bool:
		*to = text == "true"
	case *[]string:
		// --audience "" empties the list.
		*to = slices.DeleteFunc(slices.Clone(flag.(pflag.SliceValue).GetSlice()), func(text string) bool { return text == "" && (s.Optional || !s.Each) })
	case *json.RawMessage:
		*to = json.RawMessage(text)
	case **store.Milliseconds:
		if *to = nil; !isDefault(text) {
			*to, err = parseDuration(s.Flag, text)
		}
	}
	return err
}

// isDefault reports whether the value of a flag stands for the server's default.
func isDefault(text string) bool { return text == "default" || text == "" }

// readFile reads the file that a flag names. Its errors do not quote the content, which may
// be a private key that was given by mistake.
func readFile(flag, name string) ([]byte, error) {
	body, err := os.ReadFile(name)
	switch {
	case err != nil:
		return nil, &oauth.Invalid{Field: flag, Message: err.Error()}
	case flag == "jwks" && !(utf8.Valid(body) && json.Valid(body)):
		return nil, &oauth.Invalid{Field: flag, Message: "the file is not JSON"}
	case !utf8.Valid(body):
		return nil, &oauth.Invalid{Field: flag, Message: "the file is not UTF-8 text"}
	}
	return body, nil
}

func parseDuration(flag, text string) (*store.Milliseconds, error) {
	d, err := config.ParseDuration(text)
	if err != nil {
		return nil, &oauth.Invalid{Field: flag, Message: err.Error()}
	}
	return store.InMilliseconds(d.Std()), nil
}
