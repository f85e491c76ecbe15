// Package internal holds the source of the packages beneath it, so that the lab can
// show a cure beside what it does.
package internal

import "embed"

// Source has the files by their path below this folder.
//
//go:embed auth/*.go cache/*.go dbroute/*.go jobs/*.go posts/*.go site/*.go tokens/*.go web/*.go
var Source embed.FS
