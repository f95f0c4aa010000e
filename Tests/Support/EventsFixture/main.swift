// Says what events it hears, and does what its input says by a shell meanwhile: in a network of its own, for tests.

import Foundation
import Glibc
import SystemEvents

func read() -> ClockSample {
  func clock(_ id: clockid_t) -> Duration {
    var time = timespec()
    clock_gettime(id, &time)
    return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
  }
  return ClockSample(wall: clock(CLOCK_REALTIME), monotonic: clock(CLOCK_MONOTONIC), boottime: clock(CLOCK_BOOTTIME))
}

func output(_ line: String) { FileHandle.standardOutput.write(Data("\(line)\n".utf8)) }

let machine = SystemEvents(reading: read, settling: .milliseconds(200), networkInterval: .milliseconds(200))
let listening = Task.detached { for await event in machine.events { output("\(event)") } }
output(machine.limitation ?? "ready")
while let line = readLine() {
  output("status \(Glibc.system("exec </dev/null; \(line)"))")
}
machine.close()
await listening.value
output("closed")
