// A program that knows nothing of the simulation: NVIDIA's own Go modules on whatever libnvidia-ml.so.1 the loader finds.
//
// It reads one command per line and answers each with one line of JSON, so that a test can compare what it saw with what
// others see of the same machine:
//
//	show                               cards and their slices, through go-nvml
//	profiles GPU                       what the card offers, through go-nvml
//	devices                            cards, MIG devices and profile names, through go-nvlib
//	mode GPU 0|1                       switch MIG
//	create GPU CONSTANT START          a GPU instance at a place
//	compute GPU GI CONSTANT            a compute instance
//	destroy GPU GI [CI]                either
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/NVIDIA/go-nvlib/pkg/nvlib/device"
	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// A failure is how one command ends when NVML says no.
type failure struct {
	doing string
	code  nvml.Return
}

// must ends the command unless NVML said success.
func must[T any](value T, code nvml.Return) T {
	if code != nvml.SUCCESS {
		panic(failure{fmt.Sprintf("%T", value), code})
	}
	return value
}

func check(doing string, code nvml.Return) {
	if code != nvml.SUCCESS {
		panic(failure{doing, code})
	}
}

type compute struct {
	ID    uint32 `json:"id"`
	Start uint32 `json:"start"`
	Size  uint32 `json:"size"`
	UUID  string `json:"uuid"`
}

type slice struct {
	ID        uint32    `json:"id"`
	ProfileID uint32    `json:"profileId"`
	Start     uint32    `json:"start"`
	Size      uint32    `json:"size"`
	Compute   []compute `json:"compute"`
}

type card struct {
	Index     int     `json:"index"`
	UUID      string  `json:"uuid"`
	Name      string  `json:"name"`
	DeviceID  uint32  `json:"deviceId"`
	BusID     string  `json:"busId"`
	Minor     int     `json:"minor"`
	MemoryMiB uint64  `json:"memoryMiB"`
	Current   bool    `json:"current"`
	Pending   bool    `json:"pending"`
	Slices    []slice `json:"slices"`
}

type profile struct {
	Constant        int      `json:"constant"`
	ID              uint32   `json:"id"`
	Name            string   `json:"name"`
	Slices          uint32   `json:"slices"`
	Count           uint32   `json:"count"`
	Starts          []uint32 `json:"starts"`
	Size            uint32   `json:"size"`
	MemoryMiB       uint64   `json:"memoryMiB"`
	Multiprocessors uint32   `json:"multiprocessors"`
	Engines         []uint32 `json:"engines"`
	Capabilities    uint32   `json:"capabilities"`
	Remaining       int      `json:"remaining"`
}

type migDevice struct {
	UUID    string `json:"uuid"`
	Profile string `json:"profile"`
}

type wholeDevice struct {
	UUID     string      `json:"uuid"`
	MIG      bool        `json:"mig"`
	Profiles []string    `json:"profiles"`
	Devices  []migDevice `json:"devices"`
}

// The one instance that everything is called on: go-nvlib looks up symbols of the instance that it was given.
var library = nvml.New()

func main() {
	if code := library.Init(); code != nvml.SUCCESS {
		fmt.Fprintf(os.Stderr, "initialising NVML: %v\n", code)
		os.Exit(1)
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		answer(strings.Fields(lines.Text()))
	}
	if code := library.Shutdown(); code != nvml.SUCCESS {
		fmt.Fprintf(os.Stderr, "shutting NVML down: %v\n", code)
		os.Exit(1)
	}
}

func answer(words []string) {
	defer func() {
		if problem := recover(); problem != nil {
			said, ok := problem.(failure)
			if !ok {
				panic(problem)
			}
			write(map[string]any{"doing": said.doing, "code": said.code, "text": said.code.Error()})
		}
	}()
	write(run(words[0], numbers(words[1:])))
}

func write(value any) {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(text))
}

func numbers(words []string) []int {
	var found []int
	for _, word := range words {
		number, err := strconv.Atoi(word)
		if err != nil {
			panic(err)
		}
		found = append(found, number)
	}
	return found
}

func run(command string, with []int) any {
	switch command {
	case "show":
		return show()
	case "devices":
		return devices()
	}
	gpu := must(library.DeviceGetHandleByIndex(with[0]))
	switch command {
	case "profiles":
		return profiles(gpu)
	case "mode":
		status, code := gpu.SetMigMode(with[1])
		check("setting the mode", code)
		return map[string]any{"status": status}
	case "create":
		info := must(gpu.GetGpuInstanceProfileInfo(with[1]))
		for _, place := range must(gpu.GetGpuInstancePossiblePlacements(&info)) {
			if place.Start == uint32(with[2]) {
				made := must(gpu.CreateGpuInstanceWithPlacement(&info, &place))
				return map[string]any{"id": must(made.GetInfo()).Id}
			}
		}
		return map[string]any{"id": nil}
	case "compute":
		instance := must(gpu.GetGpuInstanceById(with[1]))
		info := must(instance.GetComputeInstanceProfileInfo(with[2], nvml.COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED))
		made := must(instance.CreateComputeInstance(&info))
		return map[string]any{"id": must(made.GetInfo()).Id}
	case "destroy":
		instance := must(gpu.GetGpuInstanceById(with[1]))
		if len(with) > 2 {
			check("destroying a compute instance", must(instance.GetComputeInstanceById(with[2])).Destroy())
		} else {
			check("destroying a GPU instance", instance.Destroy())
		}
		return map[string]any{}
	}
	panic("no such command: " + command)
}

func show() []card {
	cards := []card{}
	for index := range must(library.DeviceGetCount()) {
		gpu := must(library.DeviceGetHandleByIndex(index))
		pci := must(gpu.GetPciInfo())
		found := card{
			Index:     must(gpu.GetIndex()),
			UUID:      must(gpu.GetUUID()),
			Name:      must(gpu.GetName()),
			DeviceID:  pci.PciDeviceId >> 16,
			BusID:     text(pci.BusId[:]),
			Minor:     must(gpu.GetMinorNumber()),
			MemoryMiB: must(gpu.GetMemoryInfo()).Total >> 20,
			Slices:    []slice{},
		}
		current, pending, code := gpu.GetMigMode()
		if code != nvml.ERROR_NOT_SUPPORTED {
			check("reading the mode", code)
		}
		found.Current, found.Pending = current == nvml.DEVICE_MIG_ENABLE, pending == nvml.DEVICE_MIG_ENABLE
		if found.Current {
			found.Slices = slices(gpu)
		}
		cards = append(cards, found)
	}
	return cards
}

func slices(gpu nvml.Device) []slice {
	found := []slice{}
	for constant := range nvml.GPU_INSTANCE_PROFILE_COUNT {
		info, code := gpu.GetGpuInstanceProfileInfo(constant)
		if code == nvml.ERROR_NOT_SUPPORTED {
			continue
		}
		check("reading a profile", code)
		for _, instance := range must(gpu.GetGpuInstances(&info)) {
			about := must(instance.GetInfo())
			if must(about.Device.GetUUID()) != must(gpu.GetUUID()) {
				panic("a GPU instance says that it is on another card")
			}
			place := about.Placement
			found = append(found, slice{about.Id, about.ProfileId, place.Start, place.Size, computes(instance)})
		}
	}
	return found
}

func computes(instance nvml.GpuInstance) []compute {
	found := []compute{}
	for constant := range nvml.COMPUTE_INSTANCE_PROFILE_COUNT {
		info, code := instance.GetComputeInstanceProfileInfo(constant, nvml.COMPUTE_INSTANCE_ENGINE_PROFILE_SHARED)
		if code == nvml.ERROR_NOT_SUPPORTED {
			continue
		}
		check("reading a compute profile", code)
		for _, made := range must(instance.GetComputeInstances(&info)) {
			about := must(made.GetInfo())
			uuid := must(about.Device.GetUUID())
			found = append(found, compute{about.Id, about.Placement.Start, about.Placement.Size, uuid})
		}
	}
	return found
}

func profiles(gpu nvml.Device) []profile {
	found := []profile{}
	for constant := range nvml.GPU_INSTANCE_PROFILE_COUNT {
		info, code := gpu.GetGpuInstanceProfileInfo(constant)
		if code == nvml.ERROR_NOT_SUPPORTED {
			continue
		}
		check("reading a profile", code)
		named := must(gpu.GetGpuInstanceProfileInfoV(constant).V2())
		capable := must(gpu.GetGpuInstanceProfileInfoV(constant).V3())
		if named.Id != info.Id || capable.Id != info.Id || text(named.Name[:]) != text(capable.Name[:]) {
			panic("the versions of a profile differ")
		}
		one := profile{
			Constant:        constant,
			ID:              info.Id,
			Name:            text(named.Name[:]),
			Slices:          info.SliceCount,
			Count:           info.InstanceCount,
			MemoryMiB:       info.MemorySizeMB,
			Multiprocessors: info.MultiprocessorCount,
			Engines: []uint32{
				info.CopyEngineCount, info.DecoderCount, info.EncoderCount, info.JpegCount, info.OfaCount,
			},
			Capabilities: capable.Capabilities,
			Remaining:    must(gpu.GetGpuInstanceRemainingCapacity(&info)),
		}
		for _, place := range must(gpu.GetGpuInstancePossiblePlacements(&info)) {
			one.Starts, one.Size = append(one.Starts, place.Start), place.Size
		}
		found = append(found, one)
	}
	return found
}

func devices() []wholeDevice {
	found := []wholeDevice{}
	for _, one := range try(device.New(library).GetDevices()) {
		whole := wholeDevice{
			UUID:     must(one.GetUUID()),
			MIG:      try(one.IsMigEnabled()),
			Profiles: []string{},
			Devices:  []migDevice{},
		}
		for _, known := range try(one.GetMigProfiles()) {
			whole.Profiles = append(whole.Profiles, known.String())
		}
		if whole.MIG {
			for _, mig := range try(one.GetMigDevices()) {
				whole.Devices = append(whole.Devices, migDevice{must(mig.GetUUID()), try(mig.GetProfile()).String()})
			}
		}
		found = append(found, whole)
	}
	return found
}

// try ends the program on an error of go-nvlib, which no command here expects.
func try[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// text reads a C string.
func text[C ~int8 | ~uint8](characters []C) string {
	var found strings.Builder
	for _, character := range characters {
		if character == 0 {
			break
		}
		found.WriteByte(byte(character))
	}
	return found.String()
}
