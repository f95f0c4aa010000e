import Broker
import Grants
import OAuth

/// A token file as written.
struct FileDraft {
  enum Format: String, CaseIterable {
    case token
    case idToken = "id_token"
    case header
    case env
    case curl
    case json
    case template
  }

  var account: AccountName?
  var path: String?
  var format = Format.token
  var variable: String?
  var curlUser: String?
  var template: TokenTemplate?
  var jsonPointer: [String]?
  var iniSection: String?
  var iniKey: String?
  var user: String?
  var group: String?
  var mode: UInt32?
  var scopes: [String]?
  var resource: String?
  var audience: String?
  var minimumTTL: Duration?
}

extension Sections {
  static let mostFiles = 1000

  static let file = Section<FileDraft>(
    header: "[[file]]",
    meaning:
      "A file with an account's token, replaced by each new token: for programs that read their token from a file "
      + "(see [token files](files.md)). It is a release to the user or group that may read it: a [[rule]] must allow it.",
    keys: [
      Key("account", .accountName, \.account, "Required. The account whose access token, or session, it is."),
      Key(
        "path", filePath, \.path,
        "Required. The file. A path that does not begin with `/` is below `files` beside the socket, for a system instance "
          + "`/run/grantd/files`, the only place that it can write to; of a user's instance it may be anywhere, and `~/` "
          + "is the home folder."),
      Key(
        "format", .word(FileDraft.Format.allCases), \.format, standard: "\"token\"",
        "`token`: only the token, without a newline; `id_token`: only the ID token; `header`: `Authorization: Bearer …`; "
          + "`env`: `NAME=…`, for shells and "
          + "`EnvironmentFile=`; `curl`: options for `curl --config`; `json`: an object with `access_token`, `token_type`, "
          + "`expiry`, `expires_at`, `scope` and `account`; `template`: the text of `template`."),
      Key(
        "variable", .variableName, \.variable, standard: "\"ACCESS_TOKEN\"", "With format `env`: the variable's name."),
      Key(
        "curl_user", .name, \.curlUser,
        "With format `curl`: the user for mail servers, such as `ada@example.com`; not needed for HTTP."),
      Key(
        "template", .template, \.template,
        "With format `template`: a text with `{{access_token}}`, and where wanted `{{token_type}}`, `{{expires_at}}`, "
          + "`{{expiry}}`, `{{scope}}`, `{{account}}`; `{{access_token|json}}` is for within a JSON text."),
      Key(
        "json_pointer", .jsonPointer, \.jsonPointer,
        "Only in a user's instance: the file is another program's JSON, and only the member at this pointer (RFC 6901), such as "
          + "`/auth/token`, is the broker's."),
      Key(
        "ini_section", .name, \.iniSection,
        "Only in a user's instance: the file is another program's INI file, such as `rclone.conf`, and only `ini_key` in this "
          + "section is the broker's."),
      Key("ini_key", .name, \.iniKey, "With `ini_section`: the key."),
      Key(
        "user", .name, \.user, standard: "of a user's instance its owner",
        "The user who may read the file. A system instance needs this or `group`."),
      Key("group", .name, \.group, "The group that may read the file, instead of `user`."),
      Key(
        "mode", fileMode, \.mode, standard: "\"0600\"",
        "The file's permissions for the broker's own user and group. Others than these and the reader have none."),
      Key(
        "scopes", .scopes, \.scopes, standard: "all that was granted",
        "The scopes of the token, if the provider can narrow."),
      Key("resource", .name, \.resource, standard: "the account's", "The resource that the token is for (RFC 8707)."),
      Key("audience", .audience, \.audience, standard: "the account's", "The audience that the token is for."),
      Key(
        "min_ttl", .duration(.seconds(1)...(.days(1))), \.minimumTTL, standard: "\"60s\"",
        "The minimum remaining lifetime of the token in the file, at most that of a new token. Some programs read the "
          + "file "
          + "once in ten minutes."),
    ])

  private static let filePath = Form<String>.text.map("a path") { text throws(Unfit) in
    let names = text.split(separator: "/", omittingEmptySubsequences: false).dropFirst(text.hasPrefix("/") ? 1 : 0)
    guard text.utf8.count <= 1024, !names.isEmpty, names.allSatisfy({ !["", ".", ".."].contains($0) }) else {
      throw .found(quoted(text), suggestion: "write it without \"..\", \".\" and double slashes")
    }
    return text
  }

  private static let fileMode = Form<UInt32>.mode.map("permissions in octal, such as \"0640\"") { mode throws(Unfit) in
    guard mode & 0o137 == 0, mode & 0o400 != 0 else {
      throw .because(
        "that lets others than the reader use the token, or a group write it", suggestion: "use \"0600\" or \"0640\"")
    }
    return mode
  }
}

extension Form where Output == AccountName {
  static let accountName = Form<String>.text.map("the name of an account") { text throws(Unfit) in
    guard let name = AccountName(rawValue: text) else { throw .found(quoted(text)) }
    return name
  }
}

extension Form where Output == String {
  static let audience = text.map("an audience") { text throws(Unfit) in
    guard TokenAudience.isValid(text) else {
      throw .found(quoted(text), suggestion: "write it without spaces and quotation marks")
    }
    return text
  }

  static let variableName = text.map("the name of a variable") { text throws(Unfit) in
    let isName = text.utf8.allSatisfy { byte in
      (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte & 0xdf) || byte == UInt8(ascii: "_")
        || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
    }
    guard isName, let first = text.utf8.first, !(UInt8(ascii: "0")...UInt8(ascii: "9")).contains(first) else {
      throw .found(quoted(text))
    }
    return text
  }
}

extension Form where Output == TokenTemplate {
  /// Several lines are usual here.
  fileprivate static let template = Form(expected: "a text with {{access_token}}") { value throws(Unfit) in
    guard case .text(let text) = value else { throw .found(value.kind) }
    guard text.utf8.count <= 16 << 10 else { throw .found("one of \(text.utf8.count) bytes") }
    do throws(TokenTemplate.Fault) {
      return try TokenTemplate(text)
    } catch {
      throw .because(error.message)
    }
  }
}

extension Form where Output == [String] {
  /// RFC 6901 §3.
  fileprivate static let jsonPointer = Form<String>.text.map("a JSON pointer, such as \"/auth/token\"") {
    text throws(Unfit) in
    guard text.hasPrefix("/"), text.utf8.count <= 1024 else { throw .found(quoted(text)) }
    let names = text.dropFirst().split(separator: "/", omittingEmptySubsequences: false).map { String($0) }
    return names.map { name in name.replacing("~1", with: "/").replacing("~0", with: "~") }
  }
}

extension FileDraft {
  /// The file; nil, and a report, if its keys contradict each other.
  func file(_ section: NamedSection, sources: Settings.Sources, report: inout ConfigurationReport) -> TokenFile? {
    report.require(["account", "path"], in: section)
    guard let format = fileFormat(section, report: &report), let member = member(section, sources, report: &report),
      let reader = reader(section, sources, report: &report), let account, let path,
      let whole = whole(path, section, sources, report: &report)
    else { return nil }
    return TokenFile(
      place: .init(path: whole, member: member.value), name: path, account: account, format: format, reader: reader,
      mode: mode, scopes: scopes, resource: resource, audience: audience,
      minimumTTL: minimumTTL ?? TokenFile.standardTTL)
  }

  private func whole(
    _ path: String, _ section: NamedSection, _ sources: Settings.Sources, report: inout ConfigurationReport
  ) -> String? {
    guard let home = sources.home else {
      guard path.hasPrefix("/") || path.hasPrefix("~") else { return path }
      report.problem(
        at: section, "path", "is \(quoted(path)): the files of a system instance are below /run/grantd/files",
        suggestion: "write it without the folder, such as \"prometheus/token\"")
      return nil
    }
    return path.hasPrefix("~/") ? home + path.dropFirst(1) : path
  }

  private func fileFormat(_ section: NamedSection, report: inout ConfigurationReport) -> TokenFileFormat? {
    let own: [(Format, String)] = [(.env, "variable"), (.curl, "curl_user"), (.template, "template")]
    for (needed, key) in own where section[key] != nil && format != needed {
      report.problem(
        at: section, key, "is for format = \"\(needed.rawValue)\"", suggestion: "remove it, or change the format")
      return nil
    }
    switch format {
    case .token: return .token
    case .idToken:
      for key in ["scopes", "resource"] where section[key] != nil {
        report.problem(at: section, key, "is for access tokens", suggestion: "remove it, or change the format")
        return nil
      }
      return .idToken
    case .header: return .header
    case .env: return .environment(variable: variable ?? "ACCESS_TOKEN")
    case .curl: return .curl(user: curlUser)
    case .json: return .json
    case .template:
      if section["template"] == nil {
        report.problem("[[file]] has format = \"template\", and no \"template\"", at: section.place)
      }
      return template.map { .template($0) }
    }
  }

  private func member(
    _ section: NamedSection, _ sources: Settings.Sources, report: inout ConfigurationReport
  ) -> (value: TokenFile.Member?, Void)? {
    let keys = ["json_pointer", "ini_section", "ini_key"].filter { section[$0] != nil }
    guard let first = keys.first else { return (nil, ()) }
    guard sources.home != nil else {
      report.problem(
        at: section, first, "is for a user's instance: a system instance changes no files of other programs")
      return nil
    }
    for key in ["user", "group", "mode"] where section[key] != nil {
      report.problem(at: section, key, "is for files of the broker's own")
      return nil
    }
    switch keys {
    case ["json_pointer"]: return jsonPointer.map { (.json($0), ()) }
    case ["ini_section", "ini_key"]:
      guard let iniSection, let iniKey else { return nil }
      return (.ini(section: iniSection, key: iniKey), ())
    default:
      report.problem(
        "[[file]] has \(keys.map(quoted).joined(separator: " and "))", at: section.location(of: first),
        suggestion: "use json_pointer alone, or ini_section with ini_key")
      return nil
    }
  }

  private func reader(
    _ section: NamedSection, _ sources: Settings.Sources, report: inout ConfigurationReport
  ) -> TokenFile.Reader? {
    switch (user, group) {
    case (let user?, nil):
      guard let id = sources.user(user) else {
        report.problem("\"user\" in [[file]]: there is no user \(quoted(user))", at: section.location(of: "user"))
        return nil
      }
      let membership = sources.membership(id)
      return .user(id, gid: membership.gid, groups: membership.groups)
    case (nil, let group?):
      guard let id = sources.group(group) else {
        report.problem("\"group\" in [[file]]: there is no group \(quoted(group))", at: section.location(of: "group"))
        return nil
      }
      return .group(id)
    case (_?, _?):
      report.problem("[[file]] has both \"user\" and \"group\"", at: section.place, suggestion: "keep one of them")
      return nil
    case (nil, nil):
      guard section["user"] == nil, section["group"] == nil else { return nil }
      guard sources.home != nil else {
        report.problem(
          "[[file]] says nobody who may read it", at: section.place, suggestion: "add user = \"…\" or group = \"…\"")
        return nil
      }
      let own = sources.membership(sources.owner)
      return .user(sources.owner, gid: own.gid, groups: own.groups)
    }
  }
}
