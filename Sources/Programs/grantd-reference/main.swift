import BrokerAPI
import Foundation
import GrantdConfiguration

/// Writes the generated reference into a folder, or names what differs there.
let files = ReferenceFiles.all + [(name: "configuration.md", content: ConfigurationReference.markdown())]
let arguments = CommandLine.arguments.dropFirst()
guard arguments.count == 2, let mode = arguments.first, let folder = arguments.last else {
  complain("usage: grantd-reference --write DIR | --check DIR")
  exit(64)
}

switch mode {
case "--write":
  do {
    for (name, content) in files {
      try Data(content.utf8).write(to: URL(fileURLWithPath: folder).appendingPathComponent(name), options: .atomic)
    }
  } catch {
    complain("grantd-reference: cannot write to \(folder): \(error.localizedDescription)")
    exit(1)
  }
case "--check":
  let differing = files.filter { name, content in
    (try? Data(contentsOf: URL(fileURLWithPath: folder).appendingPathComponent(name))) != Data(content.utf8)
  }
  for (name, _) in differing {
    complain("\(folder)/\(name) is not what the types say; run grantd-reference --write \(folder)")
  }
  exit(differing.isEmpty ? 0 : 1)
default:
  complain("usage: grantd-reference --write DIR | --check DIR")
  exit(64)
}

func complain(_ text: String) {
  FileHandle.standardError.write(Data("\(text)\n".utf8))
}
