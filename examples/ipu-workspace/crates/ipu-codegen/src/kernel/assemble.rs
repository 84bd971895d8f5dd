//! The assembler for the runtime: labels, and one instruction a line.

use ipu_target::{Instruction, Register};
use std::collections::BTreeMap;
use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssemblyError {
    line: usize,
    text: String,
}

impl fmt::Display for AssemblyError {
    fn fmt(&self, output: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(output, "assembly line {}: cannot read {:?}", self.line, self.text)
    }
}

impl std::error::Error for AssemblyError {}

/// Words and labels of a source text.
pub fn assemble(source: &str) -> Result<(Vec<u32>, BTreeMap<String, u32>), AssemblyError> {
    let mut words = Vec::new();
    let mut labels = BTreeMap::new();
    for (index, line) in source.lines().enumerate() {
        let text = line.split('#').next().unwrap_or_default().trim();
        if let Some(label) = text.strip_suffix(':') {
            labels.insert(label.to_owned(), words.len() as u32);
        } else if !text.is_empty() {
            let instruction = parse(text)
                .ok_or_else(|| AssemblyError { line: index + 1, text: text.to_owned() })?;
            words.push(instruction.encode());
        }
    }
    Ok((words, labels))
}

fn parse(text: &str) -> Option<Instruction> {
    let (name, rest) = text.split_once(' ').unwrap_or((text, ""));
    let operands: Vec<&str> =
        rest.split(',').map(str::trim).filter(|operand| !operand.is_empty()).collect();
    Some(match (name, operands.as_slice()) {
        ("nop", []) => Instruction::Nop,
        ("halt", []) => Instruction::Halt,
        ("sync", [zone]) => Instruction::Sync { zone: zone.parse().ok()? },
        ("set", [to, value]) => {
            Instruction::SetImmediate { register: register(to)?, value: value.parse().ok()? }
        }
        ("add", [to, from, value]) => Instruction::AddImmediate {
            destination: register(to)?,
            source: register(from)?,
            value: value.parse().ok()?,
        },
        ("load", [to, base, offset]) => Instruction::Load {
            destination: register(to)?,
            base: register(base)?,
            offset: offset.parse().ok()?,
        },
        ("store", [from, base, offset]) => Instruction::Store {
            source: register(from)?,
            base: register(base)?,
            offset: offset.parse().ok()?,
        },
        ("loop", [counter, words]) => {
            Instruction::LoopEnd { counter: register(counter)?, words: words.parse().ok()? }
        }
        _ => return None,
    })
}

fn register(text: &str) -> Option<Register> {
    let number: u8 = text.strip_prefix('r')?.parse().ok()?;
    (number < Register::COUNT).then_some(Register(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_word_offsets() {
        let (words, labels) = assemble("start:\n  set r1, 5\n# a note\nend:\n  halt\n").unwrap();
        assert_eq!(words.len(), 2);
        assert_eq!((labels["start"], labels["end"]), (0, 1));
    }

    #[test]
    fn a_bad_line_is_named() {
        let error = assemble("nop\nset r99, 1").unwrap_err();
        assert!(error.to_string().contains("line 2"), "{error}");
    }
}
