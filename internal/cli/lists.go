package cli

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mintage/mintage/internal/client"
	"github.com/mintage/mintage/internal/deployment"
	"github.com/mintage/mintage/internal/oauth"
)

// listFlags are the flags of an update that change lists: --add-NAME and --remove-NAME
// beside each --NAME, and --replace, which lets --NAME drop values without confirmation.
type listFlags struct {
	add, remove map[string]*[]string // by NAME
	replace     bool
	lost        []string // what --NAME would drop, for each NAME
	noted       []string // notes that were printed
}

// register adds the flags of a list. Whole is set if a comma may be part of a value.
func (l *listFlags) register(f *pflag.FlagSet, name, title string, whole bool) {
	if l.add == nil {
		l.add, l.remove = map[string]*[]string{}, map[string]*[]string{}
		f.BoolVar(&l.replace, "replace", false, "let a flag such as --"+name+" remove the values that it leaves out")
	}
	values := f.StringSlice
	if whole {
		values = f.StringArray
	}
	l.add[name] = values("add-"+name, nil, "add to the values of --"+name+"; repeatable")
	l.remove[name] = values("remove-"+name, nil, "remove from the values of --"+name+"; repeatable")
	group(f, title, "add-"+name, "remove-"+name)
}

// drops records the items that the flag --name would drop from its list.
func (l *listFlags) drops(name string, items []string) {
	if len(items) > 0 {
		l.lost = append(l.lost, "--"+name+" removes "+strings.Join(items, ", "))
	}
}

// missing prints a note that --remove-NAME names an item that is not in the list. It prints
// each note once, even if the change is tried again.
func (l *listFlags) missing(cmd *cobra.Command, name, item string) {
	note := fmt.Sprintf("mintage: --remove-%s: %s was not there", name, item)
	if !slices.Contains(l.noted, note) {
		l.noted = append(l.noted, note)
		fmt.Fprintln(cmd.ErrOrStderr(), note)
	}
}

// confirm returns an error if values would be dropped, unless --replace or a person at
// a terminal agrees.
func (l *listFlags) confirm(cmd *cobra.Command) error {
	lost := strings.Join(l.lost, "; ")
	if l.lost = nil; lost == "" || l.replace {
		return nil
	}
	if in, ok := cmd.InOrStdin().(*os.File); ok && deployment.IsTerminal(in) && deployment.IsTerminal(cmd.ErrOrStderr()) {
		var answer string
		fmt.Fprintf(cmd.ErrOrStderr(), "mintage: %s\n         type yes to do so: ", lost)
		if _, err := fmt.Fscanln(in, &answer); err == nil && strings.EqualFold(answer, "yes") {
			return nil
		}
	}
	return deployment.Usage(deployment.Hint(fmt.Errorf("nothing was changed: %s", lost), "to keep what there is, use --add-NAME instead of --NAME; to remove it, add --replace"))
}

// change applies --add-NAME and --remove-NAME to a list setting of a client. before is the
// list before --NAME was applied.
func (l *listFlags) change(cmd *cobra.Command, s client.Setting, r *client.Registration, before []string) error {
	typed := func(values map[string]*[]string) []string {
		if list := *values[s.Flag]; !s.Words {
			return list
		} else {
			return strings.Fields(strings.Join(list, " "))
		}
	}
	more, fewer := typed(l.add), typed(l.remove)
	if !cmd.Flags().Changed(s.Flag) && len(more)+len(fewer) == 0 {
		return nil
	}
	if err := checkText("add-"+s.Flag+" or --remove-"+s.Flag, strings.Join(slices.Concat(more, fewer), " ")); err != nil {
		return err
	}
	list, _ := s.List(r)
	kept := before
	for _, item := range fewer {
		var missing bool
		var err error
		if list, missing, err = s.Remove(list, item); err == nil && cmd.Flags().Changed(s.Flag) {
			kept, missing, err = s.Remove(kept, item)
		}
		if err != nil {
			return &oauth.Invalid{Field: "remove-" + s.Flag, Message: err.Error()}
		}
		if missing {
			l.missing(cmd, s.Flag, item)
		}
	}
	for _, item := range more {
		list = s.Add(list, item)
	}
	if cmd.Flags().Changed(s.Flag) {
		l.drops(s.Flag, s.Lost(kept, list))
	}
	if len(more)+len(fewer) > 0 {
		s.SetList(r, list)
	}
	return nil
}
