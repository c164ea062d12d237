package config

import "reflect"

// Reloaded returns c with the values of wanted for the settings that a reload
// applies. changed names those; kept names settings that differ but require a
// restart.
func (c Config) Reloaded(wanted Config) (next Config, changed, kept []string) {
	next = c
	for _, k := range Keys() {
		now, then := k.value(&next), k.value(&wanted)
		switch {
		case reflect.DeepEqual(now.Interface(), then.Interface()) || now.Kind() == reflect.Slice && now.Len() == 0 && then.Len() == 0:
		case k.Reloads:
			now.Set(then)
			changed = append(changed, k.Name)
		default:
			kept = append(kept, k.Name)
		}
	}
	return next, changed, kept
}
