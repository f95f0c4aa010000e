import Synchronization
import Testing

@testable import Systemd

@Suite struct DescriptorStoreTests {
  @Test("Each message is the assignment that sd_pid_notify_with_fds(3) documents, and no other name is a stored one")
  func messages() {
    let sent = Mutex<[(String, [Int32])]>([])
    let store = DescriptorStore { message, descriptors in
      sent.withLock { $0.append((message, descriptors)) }
      return !descriptors.isEmpty
    }
    #expect(store.keep(7, as: "callback-8400-v4"))
    store.remove("callback-8400-v4")
    let all = sent.withLock { $0 }
    #expect(
      all.map(\.0) == ["FDSTORE=1\nFDNAME=kept-callback-8400-v4", "FDSTOREREMOVE=1\nFDNAME=kept-callback-8400-v4"])
    #expect(all.map(\.1) == [[7], []])
    for (name, isKept) in [("kept-grantd", true), ("grantd", false), ("credentials", false), ("unknown", false)] {
      #expect(DescriptorStore.holds(name) == isKept)
    }
  }

  @Test("Without a manager nothing is kept")
  func noManager() {
    #expect(!DescriptorStore().keep(1, as: "x"))
  }
}
