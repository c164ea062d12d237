package node

import (
	"strings"

	"github.com/mintage/mintage/internal/adminapi"
	"github.com/mintage/mintage/internal/config"
)

// inForce is the configuration with which a node runs, and how to read it again.
type inForce struct {
	cfg  config.Config
	from config.Sources
	load func() (config.Config, config.Sources, error)
}

// settings returns the settings in force, and what the configuration as it is now would
// change.
func (n *node) settings() adminapi.Settings {
	now := n.inForce.Load()
	v := adminapi.Settings{Settings: []adminapi.SettingValue{}, OnReload: []string{}, OnRestart: []string{}, Faults: []string{}}
	for _, s := range config.List(now.cfg, now.from) {
		v.Settings = append(v.Settings, adminapi.SettingValue{Name: s.Name, Group: s.Group, Value: s.Value, Source: s.Source, Given: s.Given, Reloads: s.Reloads})
	}
	wanted, _, err := now.load()
	if err != nil {
		v.Faults = append(v.Faults, strings.Split(err.Error(), "\n")...)
		return v
	}
	_, changed, kept := now.cfg.Reloaded(wanted)
	v.OnReload, v.OnRestart = append(v.OnReload, changed...), append(v.OnRestart, kept...)
	return v
}

// runWith notes what a node runs with from now on. Settings that a reload has kept have
// their source still.
func (n *node) runWith(cfg config.Config, from config.Sources, kept []string, load func() (config.Config, config.Sources, error)) {
	if before := n.inForce.Load(); before != nil {
		for _, name := range kept {
			if s, given := before.from[name]; given {
				from[name] = s
			} else {
				delete(from, name)
			}
		}
	}
	n.inForce.Store(&inForce{cfg, from, load})
}
