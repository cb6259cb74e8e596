package daemon

import (
	"hash/fnv"
	"os"
	"strconv"
)

// LoopbackName identifies the loopback network of this process: two processes with the same name can reach
// each other at 127.0.0.1. On Linux it identifies a network namespace within one boot of a machine, so a
// container has its own name. On other systems it identifies the machine. The name is a hash and does not
// reveal its inputs.
func LoopbackName() string {
	h := fnv.New64a()
	part := func(text string) { _, _ = h.Write(append([]byte(text), 0)) }
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	space, linked := os.Readlink("/proc/self/ns/net")
	if err == nil && linked == nil {
		part(string(boot))
		part(space)
	} else {
		name, _ := os.Hostname()
		part(name)
	}
	return strconv.FormatUint(h.Sum64(), 36)
}
