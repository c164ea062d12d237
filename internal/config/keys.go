package config

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A Key is one setting, under its three names.
type Key struct {
	Name string // in the file: tls.cert
	Env  string // MINTAGE_TLS_CERT
	Flag string // tls-cert
	Doc  string
	// Group is the title over the setting in help texts.
	Group string
	// EnvFile names the variable with the path of a file that holds the value;
	// "" if the value cannot be a secret.
	EnvFile string
	// Credential names the systemd credential that is used where nothing else
	// is given: the value, if it can be a secret, or else the file with it.
	Credential string
	// Default is the text of the default, "" if there is none.
	Default string
	// Choices are the only values; none if the choice is open.
	Choices []string
	IsBool  bool
	// Reloads means that a reload (SIGHUP) applies a new value; other settings
	// require a restart.
	Reloads bool
	// OfRealm means that each realm may have its own value.
	OfRealm bool
	isList  bool
	kind    reflect.Type
	field   []int
}

// Keys lists every setting in the order of Config.
func Keys() []Key { return slices.Clone(keys()) }

// keys reads the settings from the tags of Config, once: every command needs them for its
// flags, even one that only prints the version.
var keys = sync.OnceValue(func() []Key { return keysOf(reflect.TypeFor[Config](), reflect.ValueOf(Default()), Key{}, nil) })

// keysOf lists the settings below a section.
func keysOf(t reflect.Type, def reflect.Value, section Key, path []int) (keys []Key) {
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Tag.Get("yaml") == "-" {
			continue
		}
		name := section.Name + f.Tag.Get("yaml")
		at, group := append(slices.Clone(path), i), cmp.Or(f.Tag.Get("group"), section.Group)
		ofRealm := section.OfRealm || f.Tag.Get("realm") == "yes"
		if f.Type.Kind() == reflect.Struct {
			keys = append(keys, keysOf(f.Type, def.Field(i), Key{Name: name + ".", Group: group, OfRealm: ofRealm}, at)...)
			continue
		}
		k := Key{
			Name: name, Env: "MINTAGE_" + strings.ToUpper(strings.ReplaceAll(name, ".", "_")),
			Flag: strings.NewReplacer(".", "-", "_", "-").Replace(name), Doc: f.Tag.Get("doc"), Group: group,
			Credential: f.Tag.Get("credential"), Reloads: f.Tag.Get("reload") == "yes", OfRealm: ofRealm,
			IsBool: f.Type.Kind() == reflect.Bool, isList: f.Type.Kind() == reflect.Slice, kind: f.Type, field: at,
		}
		if f.Tag.Get("secret") == "yes" {
			k.EnvFile = k.Env + "_FILE"
		}
		if choices := f.Tag.Get("enum"); choices != "" {
			k.Choices = strings.Split(choices, ",")
		}
		if !def.Field(i).IsZero() {
			k.Default = k.Text(Default())
		}
		keys = append(keys, k)
	}
	return keys
}

// value is the key's field of c.
func (k Key) value(c *Config) reflect.Value { return reflect.ValueOf(c).Elem().FieldByIndex(k.field) }

// Text returns the key's value in the form of flags and variables: the items of a list are
// separated by commas.
func (k Key) Text(c Config) string {
	return strings.Join(k.items(&c), ",")
}

// items are the texts of a list, or the one text of a single value.
func (k Key) items(c *Config) (items []string) {
	v := k.value(c)
	if !k.isList {
		return []string{fmt.Sprint(v.Interface())}
	}
	for i := range v.Len() {
		items = append(items, fmt.Sprint(v.Index(i).Interface()))
	}
	return items
}

// form describes the values that the file accepts.
func (k Key) form() string {
	if k.isList {
		return "a single value, or a list of them,"
	}
	return "a single value"
}

// set parses text into the key's field. Lists are separated by commas.
func (k Key) set(c *Config, text string) error {
	switch p := k.value(c).Addr().Interface().(type) {
	case *string:
		*p = text
	case *bool:
		v, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("%s is neither true nor false", quoted(text))
		}
		*p = v
	case *int:
		v, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("%s is not a whole number", quoted(text))
		}
		*p = v
	case *Duration:
		v, err := ParseDuration(text)
		if err != nil {
			return err
		}
		*p = v
	case *Size:
		v, err := ParseSize(text)
		if err != nil {
			return err
		}
		*p = v
	case *[]string:
		*p = list(text)
	case *[]netip.Prefix:
		*p = nil
		for _, item := range list(text) {
			v, err := netip.ParsePrefix(item)
			if a, aerr := netip.ParseAddr(item); aerr == nil {
				v, err = netip.PrefixFrom(a, a.BitLen()), nil
			}
			if err != nil {
				return fmt.Errorf("%s is not a network such as 10.0.0.0/8", quoted(item))
			}
			if v.Addr().Is4In6() { // peers are compared as IPv4 addresses
				return fmt.Errorf("%s matches no proxy: write an IPv4 address as %s", quoted(item), v.Addr().Unmap())
			}
			// An operator who means one proxy must not trust its whole network by mistake.
			if v != v.Masked() {
				return fmt.Errorf("%s is ambiguous: write %s for one address, or %s for the network", quoted(item), v.Addr(), v.Masked())
			}
			*p = append(*p, v)
		}
	default:
		panic("config: no parser for " + k.Name)
	}
	return nil
}

// noChoice is the error of a text that is none of the key's choices.
func (k Key) noChoice(text string) error {
	if k.kind.Kind() == reflect.String {
		text = quoted(text)
	}
	last := len(k.Choices) - 1
	if last == 1 {
		return fmt.Errorf("%s is neither %s nor %s", text, k.Choices[0], k.Choices[1])
	}
	return fmt.Errorf("%s is not %s or %s", text, strings.Join(k.Choices[:last], ", "), k.Choices[last])
}

// quoted quotes user input, and limits its length.
func quoted(text string) string {
	if len(text) > 80 {
		return strconv.Quote(text[:80]) + "..."
	}
	return strconv.Quote(text)
}

func list(text string) (items []string) {
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}

// suggest names the setting with the smallest edit distance to an unknown one.
func suggest(name string, all []Key, of func(Key) string) string {
	if len(name) > 80 {
		return ""
	}
	best, least := "", 1+len(name)/3
	for _, k := range all {
		if d := distance(name, of(k)); d < least {
			best, least = of(k), d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s?)", best)
}

// distance is the Levenshtein distance: the number of bytes to insert, delete or replace.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		corner := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := corner
			if a[i] != b[j] {
				cost++
			}
			corner = row[j+1]
			row[j+1] = min(cost, row[j]+1, corner+1)
		}
	}
	return row[len(b)]
}

// A Size is a number of bytes, written like 512MiB or 10GiB; zero is 0.
type Size int64

// The units of sizes.
const (
	KiB Size = 1 << (10 * (iota + 1))
	MiB
	GiB
	TiB
)

var units = []struct {
	size Size
	name string
}{{TiB, "TiB"}, {GiB, "GiB"}, {MiB, "MiB"}, {KiB, "KiB"}}

func (s Size) String() string {
	for _, u := range units {
		if s != 0 && s%u.size == 0 {
			return strconv.FormatInt(int64(s/u.size), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// ParseSize parses 0 and whole numbers of a unit, such as 512MiB.
func ParseSize(text string) (Size, error) {
	if text == "0" {
		return 0, nil
	}
	for _, u := range units {
		if digits, ok := strings.CutSuffix(text, u.name); ok {
			if n, err := strconv.ParseUint(digits, 10, 63); err == nil && n <= uint64(math.MaxInt64/u.size) {
				return Size(n) * u.size, nil
			}
		}
	}
	return 0, fmt.Errorf("%s is not a size: write it like 512MiB or 10GiB", quoted(text))
}

// A Duration is written like 90s, 5m, 12h or 31d.
type Duration time.Duration

// Std converts d.
func (d Duration) Std() time.Duration { return time.Duration(d) }

func (d Duration) String() string {
	s := d.Std()
	switch {
	case s != 0 && s%day == 0:
		return fmt.Sprintf("%dd", s/day)
	case s != 0 && s%time.Hour == 0:
		return fmt.Sprintf("%dh", s/time.Hour)
	case s != 0 && s%time.Minute == 0:
		return fmt.Sprintf("%dm", s/time.Minute)
	}
	return s.String()
}

// ParseDuration parses days, such as 31d, and what time.ParseDuration accepts in whole
// milliseconds.
func ParseDuration(s string) (Duration, error) {
	if n, ok := strings.CutSuffix(s, "d"); ok {
		days, err := strconv.Atoi(n)
		if err == nil && days >= 0 && days <= 100_000 {
			return Duration(time.Duration(days) * day), nil
		}
	} else if d, err := time.ParseDuration(s); err == nil && d%time.Millisecond == 0 {
		return Duration(d), nil
	}
	return 0, fmt.Errorf("%s is not a duration: write it like 90s, 5m, 12h or 31d", quoted(s))
}

// sameValue reports whether two values of a setting mean the same.
func sameValue(a, b reflect.Value) bool {
	return reflect.DeepEqual(a.Interface(), b.Interface()) || a.Kind() == reflect.Slice && a.Len() == 0 && b.Len() == 0
}

const (
	// realmsKey is the section of the file with the further realms.
	realmsKey = "realms"
	// realmsEnv begins the variables of their settings: MINTAGE_REALMS_STAFF_BASE_PATH.
	realmsEnv = "MINTAGE_REALMS_"
	// maxRealms is more realms than one server is meant for.
	maxRealms = 1000
)

// RealmsDoc is the meaning of the section realms.
const RealmsDoc = "further realms by their names, each with settings of its own: users, clients, APIs and an issuer that no other realm knows; what a realm does not set is as outside of realms"

const day = 24 * time.Hour
