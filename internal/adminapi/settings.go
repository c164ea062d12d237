package adminapi

// Settings are those with which the server that answers runs. Passwords are left out.
type Settings struct {
	Settings []SettingValue `json:"settings"`
	// Of the configuration as it is now on the server's machine: what a reload and what a
	// restart would change, or why it could not be used.
	OnReload  []string `json:"on_reload"`
	OnRestart []string `json:"on_restart"`
	Faults    []string `json:"faults"`
}

// A SettingValue is a setting, and where its value comes from.
type SettingValue struct {
	Name    string `json:"name"` // as in the file: tls.cert
	Group   string `json:"group"`
	Value   string `json:"value"` // items of a list are separated by commas
	Source  string `json:"source"`
	Given   bool   `json:"given"`   // it is not the default
	Reloads bool   `json:"reloads"` // a reload applies another value; other settings need a restart
}
