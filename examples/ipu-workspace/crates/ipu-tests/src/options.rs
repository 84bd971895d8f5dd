//! Options as a table: what there is, what it defaults to, how help shows it.

use anyhow::{Context, Result, anyhow, bail, ensure};
use lexopt::{Arg, Parser};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt::{Display, Write};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;

/// One option; it may be given once.
pub struct OptionSpec {
    pub name: &'static str,
    /// How help shows the value; a flag has none.
    pub value: Option<&'static str>,
    pub default: Option<&'static str>,
    pub help: &'static str,
}

/// A command line, taken apart but not yet understood.
pub struct Options {
    specs: &'static [OptionSpec],
    values: BTreeMap<&'static str, OsString>,
    pub positional: Option<OsString>,
}

/// What a command line asks for.
pub enum Request {
    Run(Options),
    Help,
    Version,
}

impl Options {
    pub fn parse(specs: &'static [OptionSpec], mut parser: Parser) -> Result<Request> {
        let mut options = Self { specs, values: BTreeMap::new(), positional: None };
        while let Some(argument) = parser.next()? {
            match argument {
                Arg::Short('h') | Arg::Long("help") => return Ok(Request::Help),
                Arg::Short('V') | Arg::Long("version") => return Ok(Request::Version),
                Arg::Value(value) if options.positional.is_none() => {
                    options.positional = Some(value);
                }
                Arg::Long(name) => {
                    let spec = specs
                        .iter()
                        .find(|spec| spec.name == name)
                        .ok_or_else(|| anyhow!("unexpected argument '--{name}'"))?;
                    let value =
                        if spec.value.is_some() { parser.value()? } else { OsString::new() };
                    ensure!(
                        options.values.insert(spec.name, value).is_none(),
                        "the argument '--{}' cannot be used multiple times",
                        spec.name
                    );
                }
                other => return Err(other.unexpected().into()),
            }
        }
        Ok(Request::Run(options))
    }

    pub fn flag(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    pub fn path(&self, name: &str) -> Option<PathBuf> {
        self.raw(name).map(PathBuf::from)
    }

    /// The value of an option that has a default.
    pub fn value<T: FromStr<Err: Display>>(&self, name: &str) -> Result<T> {
        let raw = self.raw(name).with_context(|| format!("'--{name}' needs a value"))?;
        let text = raw.to_string_lossy();
        text.parse().map_err(|error| anyhow!("invalid value '{text}' for '--{name}': {error}"))
    }

    pub fn number(&self, name: &str, range: RangeInclusive<u32>) -> Result<u32> {
        let value = self.value(name)?;
        if !range.contains(&value) {
            bail!("invalid value '{value}' for '--{name}': expected {range:?}");
        }
        Ok(value)
    }

    /// Whether an option has the value that it has when it is absent.
    pub fn is_default(&self, name: &str) -> bool {
        self.raw(name) == self.default(name)
    }

    fn raw(&self, name: &str) -> Option<&OsStr> {
        self.values.get(name).map(OsString::as_os_str).or_else(|| self.default(name))
    }

    fn default(&self, name: &str) -> Option<&'static OsStr> {
        let spec = self.specs.iter().find(|spec| spec.name == name)?;
        spec.default.map(OsStr::new)
    }
}

/// The options part of the help.
pub fn help(specs: &[OptionSpec]) -> String {
    let mut text = String::from("Options:\n");
    for spec in specs {
        let value = spec.value.map(|value| format!(" <{value}>")).unwrap_or_default();
        let default = spec.default.map(|text| format!(" [default: {text}]")).unwrap_or_default();
        let name = format!("--{}{value}", spec.name);
        // Writing to a string does not fail.
        writeln!(text, "      {name:<36} {}{default}", spec.help).ok();
    }
    text + "  -h, --help                               Print help\n"
        + "  -V, --version                            Print version\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPECS: [OptionSpec; 3] = [
        OptionSpec { name: "tiles", value: Some("TILES"), default: Some("8"), help: "How many" },
        OptionSpec { name: "device", value: Some("DEVICE"), default: None, help: "Which" },
        OptionSpec { name: "quick", value: None, default: None, help: "A flag" },
    ];

    fn options(words: &[&str]) -> Result<Options> {
        match Options::parse(&SPECS, Parser::from_args(words))? {
            Request::Run(options) => Ok(options),
            Request::Help | Request::Version => bail!("help"),
        }
    }

    fn message(words: &[&str]) -> String {
        let number = options(words).and_then(|options| options.number("tiles", 1..=16));
        number.unwrap_err().to_string()
    }

    #[test]
    fn values_come_from_the_command_line_or_the_table() {
        let given = options(&["--tiles=4", "file", "--quick"]).unwrap();
        assert_eq!(given.number("tiles", 1..=16).unwrap(), 4);
        assert_eq!(given.positional.as_deref(), Some(OsStr::new("file")));
        assert!(given.flag("quick") && !given.is_default("tiles"));
        let absent = options(&[]).unwrap();
        assert_eq!(absent.number("tiles", 1..=16).unwrap(), 8);
        assert_eq!(absent.path("device"), None);
        assert!(options(&["--tiles", "8"]).unwrap().is_default("tiles"));
    }

    #[test]
    fn mistakes_are_explained() {
        assert!(message(&["--tiles", "x"]).starts_with("invalid value 'x' for '--tiles'"));
        assert!(message(&["--tiles", "17"]).ends_with("expected 1..=16"));
        assert!(message(&["--tile", "4"]).contains("unexpected argument '--tile'"));
        assert!(message(&["--quick", "--quick"]).contains("multiple times"));
        assert!(message(&["--tiles"]).contains("tiles"));
        assert!(message(&["a", "b"]).contains("unexpected argument"));
    }
}
