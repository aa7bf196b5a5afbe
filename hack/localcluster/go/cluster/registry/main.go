// Command registry is the registry of distribution with the file system as its only storage:
// upstream's own command also has the drivers of three clouds, which take most of its build.
package main

import (
	"os"

	"github.com/distribution/distribution/v3/registry"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/filesystem"
)

func main() {
	if registry.RootCmd.Execute() != nil {
		os.Exit(1)
	}
}
